"""Mail to owners, as the service writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP, default
from typing import Any

from hookfast.mail import News, compose
from hookfast.mail_address import parse_mailbox
from hookfast.owners.notice import Facts, NoticeKind

OWNER = "owner@shop.example"
MESSAGE_ID = "<1@platform.example>"
AT = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)


def news(endpoint: int = 1, **options: Any) -> News:
    """Return news of an endpoint."""
    given = {"url": f"https://shop{endpoint}.example/hooks", "description": "", "facts": Facts()}
    return News(endpoint_id=f"ep_{endpoint}", **(given | options))


def written(
    *notices: News,
    kind: NoticeKind = NoticeKind.OPENED,
    sender: str = "Hooks <hooks@platform.example>",
    **options: Any,
) -> EmailMessage:
    """Return a mail to OWNER about these notices."""
    given: dict[str, Any] = {"to": OWNER, "message_id": MESSAGE_ID, "at": AT}
    return compose(
        kind,
        notices or (news(),),
        sender=parse_mailbox(sender),
        public_url="https://hooks.example",
        **(given | options),
    )


def read(message: EmailMessage) -> EmailMessage:
    """Return a mail as a mail program reads it."""
    parsed = message_from_bytes(message.as_bytes(policy=SMTP), policy=default)
    assert isinstance(parsed, EmailMessage)
    return parsed
