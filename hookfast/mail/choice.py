"""Which transport the settings ask for."""

from __future__ import annotations

from hookfast.mail.folder import FolderTransport
from hookfast.mail.smtp import SmtpTransport
from hookfast.mail.transport import MailTransport
from hookfast.settings.settings import Settings


def transport_of(settings: Settings) -> MailTransport:
    """The mail server of `HOOKFAST_SMTP_URL`, or files in `mail/` in the home folder. Raises
    Misconfigured."""
    if settings.smtp_url is None:
        return FolderTransport(settings.home / "mail")
    return SmtpTransport(settings.smtp_url.get_secret_value())
