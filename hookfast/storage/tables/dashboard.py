"""The tables of the dashboard: its sessions, and the forms they have sent."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.tables.deliveries import Record


class DashboardSession(Record, table=True):
    """Somebody who signed in to the dashboard with an API key. Of the cookie only its SHA-256 is
    kept. `scope` and `tenant_id` are what the session may do and see, which is never more than its
    key may; `chosen_tenant_id` is the tenant an operator is looking at. `via`: it began with a
    portal link, one that an API key made (`link`) or an owner's mail carried (`mail`: there is no
    key); `endpoint_id` then may narrow it to one endpoint."""

    __tablename__ = "dashboard_sessions"
    __table_args__ = (
        # which are over
        Index("ix_dashboard_sessions_expires", "expires_at"),
    )

    token_sha256: str = Field(primary_key=True)
    key_id: str
    scope: str
    tenant_id: str | None = None
    chosen_tenant_id: str | None = None
    created_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime)
    via: str | None = None
    endpoint_id: str | None = None


class SentForm(Record, table=True):
    """A form that a session has sent: by the token of the page it was on, which is of no use to
    others, and the path it was sent to. `led_to` is the page that shows what came of it; NULL while
    it is being worked on, and for good where that was cut off. `shown_once`: the answer held what
    is not shown again, such as a secret; it is not kept here either."""

    __tablename__ = "dashboard_sent_forms"
    __table_args__ = (
        # which are as old as no session is
        Index("ix_dashboard_sent_forms_sent", "sent_at"),
    )

    session_sha256: str = Field(primary_key=True)
    token: str = Field(primary_key=True)
    path: str = Field(primary_key=True)
    sent_at: datetime = Field(sa_type=UtcDateTime)
    led_to: str | None = None
    shown_once: bool = False
