"""An SMTP server for tests that can reject or defer mail, require a login, and stop."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword

from tests.e2e.service_process import free_ports

USER, PASSWORD = b"hook", b"p@ss/word: 100%"


@dataclass(frozen=True)
class Mail:
    """A message that the server accepted. `secure` says whether it came over TLS."""

    sender: str
    recipients: list[str]
    message: EmailMessage
    secure: bool

    @property
    def message_id(self) -> str:
        return str(self.message["Message-ID"])

    def part(self, subtype: str) -> str:
        part = self.message.get_body((subtype,))
        assert part is not None
        return str(part.get_content()).replace("\r\n", "\n")


class MailServer:
    """An SMTP server that listens while its `with` block runs. `answers` has the replies to a
    recipient's address, to `MAIL` or to `DATA` that replace `250 OK`; `tries` counts `MAIL`
    commands."""

    def __init__(
        self,
        *,
        starttls: ssl.SSLContext | None = None,
        tls: ssl.SSLContext | None = None,
        login: bool = False,
    ) -> None:
        (self.port,) = free_ports(1)
        self.mails: list[Mail] = []
        self.tries = 0
        self.logins: list[bool] = []
        self.answers: dict[str, str] = {}
        self._tls = tls is not None
        self._options: dict[str, Any] = {
            "ssl_context": tls,
            "tls_context": starttls,
            "require_starttls": False,
            "auth_required": login,
            "auth_require_tls": starttls is not None,
            "authenticator": self._authenticate if login else None,
        }
        self._controller: Controller | None = None

    def url(self, credentials: str = "", *, scheme: str = "smtp", query: str = "") -> str:
        return f"{scheme}://{credentials}127.0.0.1:{self.port}{query}"

    def start(self) -> None:
        with warnings.catch_warnings():
            # aiosmtpd warns about logins without TLS, which some tests check
            warnings.simplefilter("ignore")
            self._controller = Controller(
                self, hostname="127.0.0.1", port=self.port, **self._options
            )
            self._controller.start()

    def stop(self) -> None:
        """Stop listening until `start`."""
        if self._controller is not None:
            loop = self._controller.loop
            asyncio.run_coroutine_threadsafe(_close_ended_connections(), loop).result()
            self._controller.stop()
            self._controller = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _authenticate(self, *arguments: Any) -> AuthResult:
        credentials = arguments[-1]
        assert isinstance(credentials, LoginPassword)
        correct = (credentials.login, credentials.password) == (USER, PASSWORD)
        self.logins.append(correct)
        return AuthResult(success=correct, handled=correct)

    # -- handlers that aiosmtpd calls in its own thread -----------------------------------------

    async def handle_MAIL(
        self, server: SMTP, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        self.tries += 1
        if "MAIL" in self.answers:
            return self.answers["MAIL"]
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.answers:
            return self.answers[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Envelope) -> str:
        if "DATA" in self.answers:
            return self.answers["DATA"]
        content = envelope.content
        assert isinstance(content, bytes)
        assert content.isascii()  # not every server accepts 8-bit text
        message = message_from_bytes(content, policy=default)
        assert isinstance(message, EmailMessage)
        secure = self._tls or session.ssl is not None
        self.mails.append(Mail(envelope.mail_from or "", envelope.rcpt_tos, message, secure))
        return "250 OK"


async def _close_ended_connections() -> None:
    """Let the event loop see that clients are gone, and close their connections: it stops without
    that, and the garbage collector would warn of them in a later test."""
    for _ in range(10):
        await asyncio.sleep(0)
