"""The interface of mail transports, and their errors."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Protocol

from hookfast.errors import HookfastError, Unavailable


class AddressRejected(HookfastError):
    """The mail server says that this address can never get mail. `words` are the server's, on one
    line. They may name the address, so store them only in the database."""

    code = "address_refused"

    def __init__(self, words: str) -> None:
        super().__init__("The mail server rejects this address permanently.")
        self.words = words


class MailDelayed(Unavailable):
    """The message could not be sent now: the mail server is away or busy, or rejects Hookfast, its
    sender (`HOOKFAST_MAIL_FROM`) or its messages. The error's message names no address; `words` are
    the server's."""

    code = "mail_delayed"

    def __init__(self, message: str, *, words: str) -> None:
        super().__init__(message)
        self.words = words


class MailUnconfirmed(MailDelayed):
    """The mail server got the message and did not say whether it accepted it. Sending it again may
    be a repetition, so the next try is an hour later, not seconds."""


class MailTransport(Protocol):
    """Sends one message to one address."""

    async def send(self, message: EmailMessage) -> None:
        """Send a message to the address in its `To`. Return once a mail server or the disk has it.
        Raises AddressRejected if it can never be sent, and MailDelayed if it may be sent later."""
