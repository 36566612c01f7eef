"""Checks that the mail server accepts a connection, the login and the sender. No mail is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hookfast.clock import Clock
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.errors import Misconfigured
from hookfast.mail import MailDelayed, SmtpTransport
from hookfast.mail.smtp_url import parse_smtp_url
from hookfast.mail_address import parse_mailbox
from hookfast.settings.settings import Settings


async def check_mail(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Check the sender's address and the mail server."""
    sender = parse_mailbox(settings.mail_from)
    if settings.smtp_url is None:
        yield warn(
            "mail",
            "There is no mail server: mail to owners is written to "
            f"{settings.home.absolute() / 'mail'}.",
            todo="Set HOOKFAST_SMTP_URL, as smtp://user:password@host:587.",
        )
        return
    if sender.domain == "localhost":
        yield warn(
            "mail",
            f"Mail is from {settings.mail_from}: most servers reject that, or mark it as spam.",
            todo="Set HOOKFAST_MAIL_FROM to an address of your domain.",
        )
    url = settings.smtp_url.get_secret_value()
    try:
        server = parse_smtp_url(url)
        how = await SmtpTransport(url).greet(sender.addr_spec)
    except Misconfigured as error:
        yield fail("mail", error.message, todo="Correct HOOKFAST_SMTP_URL.")
        return
    except MailDelayed as error:
        yield fail(
            "mail",
            f"{server.host}:{server.port}: {error} {error.words}".strip(),
            todo="Check host, port, user and password in HOOKFAST_SMTP_URL, whether the server's "
            "certificate is for this host, and whether it accepts HOOKFAST_MAIL_FROM as a sender. "
            "Mail waits until then.",
        )
        return
    saw = f"{server.host}:{server.port} accepts mail from {sender.addr_spec} ({how})."
    if how == "in the clear" and not _is_local(server.host):
        yield warn("mail", saw, todo="Use smtps://, or add ?starttls=required.")
    else:
        yield ok("mail", saw)


def _is_local(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")
