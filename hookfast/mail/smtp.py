"""Mail through an SMTP server (RFC 5321), with one connection per message because mail is rare."""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP as ON_THE_WIRE
from typing import Any

import aiosmtplib
import structlog
from aiosmtplib import (
    SMTPDataError,
    SMTPException,
    SMTPRecipientRefused,
    SMTPRecipientsRefused,
    SMTPResponseException,
)

from hookfast.mail.message import one_line
from hookfast.mail.smtp_url import SmtpServer, parse_smtp_url
from hookfast.mail.transport import AddressRejected, MailDelayed, MailUnconfirmed

_COMMAND_SECONDS = 20.0
_DEADLINE_SECONDS = 60.0
# The replies that may be about a recipient (RFC 5321, section 4.3.2, and RFC 7504). Others are
# about the connection, the login or the order of commands.
_ABOUT_RECIPIENTS = frozenset({501, 550, 551, 552, 553, 554, 556})
# An enhanced status code (RFC 3463): at the start of a reply, or, as qmail writes it, `(#5.1.1)`.
_ENHANCED = re.compile(r"(?:\A\W*|#)5\.(\d{1,3}\.\d{1,3})(?!\.?\d)")
# Registered codes about a recipient's address or mailbox. Not 5.1.7 and 5.1.8, which are about the
# sender's, nor Exchange's own 5.1.90 (our daily limit) and 5.2.252 (our sender is not allowed).
_ADDRESS_CODES = frozenset(
    {"1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.10", "2.1", "2.2", "2.3", "2.4"}
)
_UNSPECIFIC_CODES = frozenset({"1.0", "2.0"})
# Words with which servers reject Hookfast, its sender or its network, for any recipient.
_ABOUT_US = re.compile(
    r"relay|rcpthosts|sender|send as|from address|authenti|authori[sz]|log ?in|prohibit|permi[ts]"
    r"|denied|not allowed to|polic|spam|junk|\b(?:spf|dkim|dmarc)\b|(?:black|block|deny)[ -]?list"
    r"|blocked|banned|\b(?:is|are) listed|reputation|client host|\b(?:helo|ehlo|tls)\b|starttls"
    r"|encrypt|reverse|rdns|too many|rate limit|daily limit",
    re.IGNORECASE,
)
_QUOTED_ADDRESS = re.compile(r"\S*@\S*")

log = structlog.get_logger()


class _Client(aiosmtplib.SMTP):
    """Waits longer for the answer to a message than for others: a server that checks it for spam
    may take most of a minute, and gets it again if nobody waits (RFC 5321, section 4.5.3.2.6).
    `in_doubt`: it may have accepted a message."""

    in_doubt = False

    async def data(self, message: str | bytes, /, **_: Any) -> aiosmtplib.SMTPResponse:
        self.in_doubt = True
        try:
            response = await super().data(message, timeout=_DEADLINE_SECONDS)
        except SMTPDataError:
            self.in_doubt = False
            raise
        self.in_doubt = False
        return response


class SmtpTransport:
    """Sends mail through the server that `url` names (see `parse_smtp_url`). Raises Misconfigured.

    `tls` verifies the server; default: the system's authorities. If STARTTLS is only `offered`, the
    certificate is not verified: an attacker who can forge it could also remove the offer.
    """

    def __init__(self, url: str, *, tls: ssl.SSLContext | None = None) -> None:
        self._server = parse_smtp_url(url)
        self._tls = tls or _context(self._server)

    async def send(self, message: EmailMessage) -> None:
        """Hand the message to the server.

        Raises AddressRejected if the server says that mail to this address can never arrive. Raises
        MailDelayed for everything else, also for permanent errors (5xx) about the connection, the
        login, the sender, relaying, or the message: then the set-ups of server and Hookfast do not
        match, for every address, and mail waits until a person changes one of them. Raises
        MailUnconfirmed if the connection ends between the message and its answer.
        """
        sender, recipient = _only(message, "From"), _only(message, "To")
        wire = message.as_bytes(policy=ON_THE_WIRE)
        client = self._client()
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                await client.connect()
                await client.sendmail(sender, [recipient], wire)
        except SMTPRecipientsRefused as error:
            raise _refusal(error.recipients[0]) from None
        except SMTPResponseException as error:
            raise _refusal(error) from None
        except (SMTPException, OSError) as error:  # TimeoutError and TLS errors are OSErrors
            log.warning("The mail server is away; mail waits.", error=type(error).__name__)
            raise _away(error, in_doubt=client.in_doubt) from None
        else:
            await _leave(client)
        finally:
            client.close()

    async def greet(self, sender: str) -> str:
        """Connect, upgrade to TLS, log in and name the sender, without sending a message. Return
        `over TLS` or `in the clear`. Raises MailDelayed as `send` does."""
        client = self._client()
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                await client.connect()
                if client.is_ehlo_or_helo_needed:
                    await client.ehlo()
                secure = client.get_transport_info("sslcontext") is not None
                await client.mail(sender)
        except SMTPResponseException as error:
            raise _delayed(error) from None
        except (SMTPException, OSError) as error:
            raise _away(error) from None
        else:
            await _leave(client)
        finally:
            client.close()
        return "over TLS" if secure else "in the clear"

    def _client(self) -> _Client:
        server = self._server
        return _Client(
            hostname=server.host,
            port=server.port,
            username=server.username,
            password=server.password,
            use_tls=server.tls,
            start_tls={"never": False, "offered": None, "required": True}[server.starttls]
            if not server.tls
            else False,
            tls_context=self._tls,
            timeout=_COMMAND_SECONDS,
        )


def _only(message: EmailMessage, header: str) -> str:
    """Return the only address of a header."""
    (address,) = message[header].addresses
    spec: str = address.addr_spec
    return spec


def _context(server: SmtpServer) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not server.tls and server.starttls == "offered":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def _leave(client: aiosmtplib.SMTP) -> None:
    # The server has the message: if the connection breaks now, it must not be sent again.
    with suppress(SMTPException, OSError):
        await client.quit(timeout=2)


def _refusal(answer: SMTPResponseException) -> AddressRejected | MailDelayed:
    """Return the error for an answer that is not a success, and log it unless it is about the
    recipient."""
    if rejects_address(answer):
        return AddressRejected(_words(answer))
    log.warning(
        "The mail server rejects Hookfast's mail; it waits. See the notices in the endpoint's "
        "health for the server's words, and `hookfast doctor`.",
        code=answer.code,
    )
    return _delayed(answer)


def rejects_address(answer: SMTPResponseException) -> bool:
    """Return whether an answer to a recipient or a message says that the recipient's address can
    never get mail: by its enhanced status code or, for a recipient, by its words."""
    for_recipient = isinstance(answer, SMTPRecipientRefused)
    if answer.code not in _ABOUT_RECIPIENTS or not (
        for_recipient or isinstance(answer, SMTPDataError)
    ):
        return False
    enhanced = _ENHANCED.search(answer.message)
    if enhanced is not None and enhanced[1] not in _UNSPECIFIC_CODES:
        return enhanced[1] in _ADDRESS_CODES
    return for_recipient and not _ABOUT_US.search(_QUOTED_ADDRESS.sub("", answer.message))


def _away(error: Exception, *, in_doubt: bool = False) -> MailDelayed:
    words, name = one_line(str(error)) or type(error).__name__, type(error).__name__
    if in_doubt:
        return MailUnconfirmed(f"The mail server did not confirm the mail ({name}).", words=words)
    return MailDelayed(f"The mail server cannot be used now ({name}).", words=words)


def _delayed(answer: SMTPResponseException) -> MailDelayed:
    return MailDelayed(f"The mail server answered {answer.code}.", words=_words(answer))


def _words(answer: SMTPResponseException) -> str:
    return f"{answer.code} {one_line(answer.message)}".strip()
