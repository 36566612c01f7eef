"""Mail to the owners of endpoints: its text, and the transports that send it."""

from hookfast.mail.folder import FolderTransport
from hookfast.mail.message import News, compose
from hookfast.mail.smtp import SmtpTransport
from hookfast.mail.transport import (
    AddressRejected,
    MailDelayed,
    MailTransport,
    MailUnconfirmed,
)
from hookfast.settings.settings import Settings

__all__ = [
    "AddressRejected",
    "FolderTransport",
    "MailDelayed",
    "MailTransport",
    "MailUnconfirmed",
    "News",
    "SmtpTransport",
    "compose",
    "transport_of",
]


def transport_of(settings: Settings) -> MailTransport:
    """Return the transport for `HOOKFAST_SMTP_URL`, or files in `mail/` of the home folder if that
    is not set. Raises Misconfigured."""
    if settings.smtp_url is None:
        return FolderTransport(settings.home / "mail")
    return SmtpTransport(settings.smtp_url.get_secret_value())
