"""How a message gets away: an SMTP server, or files where none is set."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Protocol

from hookfast.errors import HookfastError, Unavailable


class AddressRefused(HookfastError):
    """The mail server will never take this message for this address. `words` are the server's, on
    one line; they may name the address, so they belong in the database and nowhere else."""

    code = "address_refused"

    def __init__(self, words: str) -> None:
        super().__init__("The mail server refuses this address.")
        self.words = words


class MailDelayed(Unavailable):
    """The message did not get away now: the mail server is away, busy, or set up otherwise than
    `HOOKFAST_SMTP_URL` says. The message names no address; `words` are the server's."""

    code = "mail_delayed"

    def __init__(self, message: str, *, words: str) -> None:
        super().__init__(message)
        self.words = words


class MailTransport(Protocol):
    """Sends one message to one address."""

    async def send(self, message: EmailMessage) -> None:
        """Send it to the one address in its `To`. Returns once someone else answers for it (a mail
        server, a disk). Raises AddressRefused when that will never be, and MailDelayed when it may
        be later."""
