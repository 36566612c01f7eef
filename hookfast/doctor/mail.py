"""Does the mail server take our mail? Asked up to the login, and nothing is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hookfast.clock import Clock
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.errors import Misconfigured
from hookfast.mail import MailDelayed, SmtpTransport
from hookfast.mail.message import parse_sender
from hookfast.mail.smtp_url import parse_smtp_url
from hookfast.settings.settings import Settings


async def look(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """The sender's address, and the server."""
    try:
        domain = parse_sender(settings.mail_from).domain
    except Misconfigured as error:
        domain = ""
        yield fail("mail", error.message, todo="Set HOOKFAST_MAIL_FROM; nothing is mailed before.")
    if settings.smtp_url is None:
        yield warn(
            "mail",
            f"There is no mail server: what owners should know is written to "
            f"{settings.home.absolute() / 'mail'}.",
            todo="Set HOOKFAST_SMTP_URL, as smtp://user:password@host:587.",
        )
        return
    if domain == "localhost":
        yield warn(
            "mail",
            f"Mail is from {settings.mail_from}: most servers refuse that, or call it spam.",
            todo="Set HOOKFAST_MAIL_FROM to an address of your domain.",
        )
    url = settings.smtp_url.get_secret_value()
    try:
        server = parse_smtp_url(url)
        how = await SmtpTransport(url).greet()
    except Misconfigured as error:
        yield fail("mail", error.message, todo="Correct HOOKFAST_SMTP_URL.")
        return
    except MailDelayed as error:
        yield fail(
            "mail",
            f"{server.host}:{server.port}: {error} {error.words}".strip(),
            todo="Check host, port, user and password in HOOKFAST_SMTP_URL, and whether the "
            "server's certificate is for this host. Mail waits until then.",
        )
        return
    saw = f"{server.host}:{server.port} takes our mail ({how})."
    if how == "in the clear" and not _near(server.host):
        yield warn("mail", saw, todo="Use smtps://, or add ?starttls=required.")
    else:
        yield ok("mail", saw)


def _near(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")
