"""Mail to the owners of endpoints: its words, and how it gets away."""

from hookfast.mail.choice import transport_of
from hookfast.mail.folder import FolderTransport
from hookfast.mail.message import News, compose
from hookfast.mail.smtp import SmtpTransport
from hookfast.mail.transport import AddressRefused, MailDelayed, MailTransport

__all__ = [
    "AddressRefused",
    "FolderTransport",
    "MailDelayed",
    "MailTransport",
    "News",
    "SmtpTransport",
    "compose",
    "transport_of",
]
