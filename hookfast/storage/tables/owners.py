"""The table of notices to owners."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Index, Text
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.tables.record import Record, partial_index


class Notice(Record, table=True):
    """A notice to one owner of an endpoint, sent by mail once per (endpoint, episode, kind,
    address). `facts` is what was known when it was created. `status` is a
    `hookfast.owners.notice.NoticeStatus`; `error` says why it was rejected or waits. `owner_hash`
    is used in place of the address wherever the address must not be seen. `message_id` is set
    before the mail is sent: it fixes which notices are in one mail, however often that is tried."""

    __tablename__ = "notices"
    __table_args__ = (
        Index("uq_notices", "endpoint_id", "episode", "kind", "email", unique=True),
        # an endpoint's notices, newest first
        Index("ix_notices_endpoint", "endpoint_id", "id"),
        partial_index("ix_notices_pending", "owner_hash", "id", where="status = 'pending'"),
        partial_index("ix_notices_asks", "owner_hash", "id", where="workflow_started_at IS NULL"),
        # an owner's last mail of a kind
        partial_index(
            "ix_notices_sent", "owner_hash", "kind", "sent_at", where="sent_at IS NOT NULL"
        ),
    )

    id: str = Field(primary_key=True)
    endpoint_id: str
    tenant_id: str
    episode: int
    kind: str
    email: str
    owner_hash: str
    facts: dict[str, Any] = Field(sa_type=JSON)
    status: str = "pending"
    tries: int = 0
    error: str | None = Field(default=None, sa_type=Text)
    message_id: str | None = Field(default=None, sa_type=Text)
    created_at: datetime = Field(sa_type=UtcDateTime)
    sent_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    workflow_started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
