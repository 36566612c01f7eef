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
    SMTPRecipientsRefused,
    SMTPResponseException,
)

from hookfast.mail.message import one_line
from hookfast.mail.smtp_url import SmtpServer, parse_smtp_url
from hookfast.mail.transport import AddressRejected, MailDelayed, MailUnconfirmed

_COMMAND_SECONDS = 20.0
_DEADLINE_SECONDS = 60.0
# "Authenticate first", "encrypt first" and the like (RFC 4954): about the sender, in any answer.
_SENDER_REJECTED = frozenset({530, 534, 535, 538})
# "Relay access denied" and the like, for a recipient: security or policy (RFC 3463, section 3.8).
# Errors about the address itself are 5.1 or 5.2.
_RELAY_DENIED = re.compile(r"5\.7\.")

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

        Raises AddressRejected if the server rejects the recipient or the message permanently (5xx).
        Raises MailDelayed for everything else: if the server rejects the connection, the login, the
        sender or relaying, its set-up does not match ours, and the address is not at fault. Raises
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
            answer = error.recipients[0]
            if _RELAY_DENIED.match(answer.message):
                log.warning("The mail server denies relaying for Hookfast; mail waits.")
                raise _delayed(answer) from None
            _rejected(answer)
        except SMTPDataError as error:
            _rejected(error)
        except SMTPResponseException as error:
            log.warning("The mail server rejects Hookfast; mail waits.", code=error.code)
            raise _delayed(error) from None
        except (SMTPException, OSError) as error:  # TimeoutError and TLS errors are OSErrors
            log.warning("The mail server is away; mail waits.", error=type(error).__name__)
            raise _away(error, in_doubt=client.in_doubt) from None
        except ValueError:  # after OSError: an unverified certificate is both
            raise AddressRejected("The address cannot be written in SMTP.") from None
        else:
            await _leave(client)
        finally:
            client.close()

    async def greet(self) -> str:
        """Connect, upgrade to TLS and log in, without sending a message. Return `over TLS` or
        `in the clear`. Raises MailDelayed as `send` does."""
        client = self._client()
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                await client.connect()
                if client.is_ehlo_or_helo_needed:
                    await client.ehlo()
                secure = client.get_transport_info("sslcontext") is not None
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


def _rejected(answer: SMTPResponseException) -> None:
    if 500 <= answer.code <= 599 and answer.code not in _SENDER_REJECTED:
        raise AddressRejected(f"{answer.code} {one_line(answer.message)}".strip()) from None
    raise _delayed(answer) from None


def _away(error: Exception, *, in_doubt: bool = False) -> MailDelayed:
    words, name = one_line(str(error)) or type(error).__name__, type(error).__name__
    if in_doubt:
        return MailUnconfirmed(f"The mail server did not confirm the mail ({name}).", words=words)
    return MailDelayed(f"The mail server cannot be used now ({name}).", words=words)


def _delayed(answer: SMTPResponseException) -> MailDelayed:
    words = f"{answer.code} {one_line(answer.message)}".strip()
    return MailDelayed(f"The mail server answered {answer.code}.", words=words)
