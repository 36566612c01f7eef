"""The tables of access: tenants and the counts of their events, API keys, and the dashboard's
sessions and sent forms."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sqlalchemy import JSON, Date, Index, Text
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.tables.record import Record, partial_index


class Tenant(Record, table=True):
    """A customer of the platform. `quotas` has the quotas that it does not share with all tenants
    (see `hookfast.quotas`), and `portal` its own look of the portal (`hookfast.brand`); NULL if it
    has none."""

    __tablename__ = "tenants"
    __table_args__ = (
        # the tenants with quotas of their own
        partial_index("ix_tenants_quotas", "id", where="quotas IS NOT NULL"),
    )

    id: str = Field(primary_key=True)
    name: str = Field(sa_type=Text)
    meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    quotas: dict[str, int] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    portal: dict[str, str] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class TenantDay(Record, table=True):
    """How many events were emitted for a tenant on a day (UTC). Counted only while the tenant has a
    quota of events per day, and deleted when the day is over."""

    __tablename__ = "tenant_days"
    __table_args__ = (
        # the days that are over
        Index("ix_tenant_days_day", "day"),
    )

    tenant_id: str = Field(primary_key=True)
    day: date = Field(primary_key=True, sa_type=Date)
    events: int


class ApiKey(Record, table=True):
    """An API key: only its SHA-256 is kept (a key has 256 random bits, so a slow hash adds
    nothing). `tenant_id` is None for operator keys."""

    __tablename__ = "api_keys"

    id: str = Field(primary_key=True)
    tenant_id: str | None = Field(default=None, index=True)
    scope: str
    name: str = Field(sa_type=Text)
    hint: str
    key_sha256: str = Field(unique=True)
    created_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    revoked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_used_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class DashboardSession(Record, table=True):
    """A dashboard session that was signed in with an API key or a portal link. Only the SHA-256 of
    its cookie is stored. `scope` and `tenant_id` limit what it may do and see, never more than its
    key may; `chosen_tenant_id` is the tenant that an operator has chosen to view. `via`, for a
    portal link: it was created with an API key (`link`), or was in a mail to an owner (`mail`:
    there is no key, and `key_id` names the owner). `endpoint_id` may then limit the session to one
    endpoint. `begun_with` is the key or the hash of the link: sessions of one are limited."""

    __tablename__ = "dashboard_sessions"
    __table_args__ = (
        # expired sessions
        Index("ix_dashboard_sessions_expires", "expires_at"),
        # the oldest beyond the limits
        Index("ix_dashboard_sessions_begun", "begun_with", "created_at", "token_sha256"),
        Index("ix_dashboard_sessions_tenant", "tenant_id", "created_at", "token_sha256"),
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
    begun_with: str


class FormOnce(Record, table=True):
    """A form that a session has sent, by the token of its page, which is of no use to other
    sessions, and by the path it was sent to. `led_to` is the page that shows the result; NULL while
    the form is processed, and for good if that was interrupted. `shown_once`: the response had
    something that is not shown again, such as a secret, which is not stored here either."""

    __tablename__ = "form_once"
    __table_args__ = (
        # forms that are older than any session
        Index("ix_form_once_sent", "sent_at"),
    )

    session_sha256: str = Field(primary_key=True)
    token: str = Field(primary_key=True)
    path: str = Field(primary_key=True)
    sent_at: datetime = Field(sa_type=UtcDateTime)
    led_to: str | None = None
    shown_once: bool = False
