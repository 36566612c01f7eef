"""The tables of the audit log. Triggers, created by the first migration, keep it append-only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, Text
from sqlmodel import Field

from hookfast.storage.database.column_types import UtcDateTime
from hookfast.storage.tables.record import Record


class AuditEntry(Record, table=True):
    """One change: a `hookfast.audit.Change` and its `Actor`. Triggers prevent updates of a row, and
    deletions of a row that is not older than the horizon."""

    __tablename__ = "audit"
    __table_args__ = (
        # lists, newest first: by tenant, by resource, by API key, by action
        Index("ix_audit_tenant", "tenant_id", "id"),
        Index("ix_audit_resource", "resource_id", "id"),
        Index("ix_audit_key", "key_id", "id"),
        Index("ix_audit_action", "action", "id"),
    )

    id: str = Field(primary_key=True)
    at: datetime = Field(sa_type=UtcDateTime)
    tenant_id: str | None = None
    actor: str
    key_id: str | None = None
    action: str
    resource: str
    resource_id: str = Field(sa_type=Text)
    changes: dict[str, dict[str, Any]] = Field(sa_type=JSON)
    request_id: str | None = None
    client_address: str | None = None


class AuditHorizon(Record, table=True):
    """The time since which the log is complete: no row, or one. It only moves forward."""

    __tablename__ = "audit_horizon"
    __table_args__ = (CheckConstraint("id = 1", name="ck_audit_horizon_is_one_row"),)

    id: int = Field(primary_key=True)
    complete_since: datetime = Field(sa_type=UtcDateTime)
