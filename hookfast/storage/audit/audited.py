"""The columns of each table that the audit log records: all but the `unlogged` ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hookfast.audit import AuditAction, Change, Facts, differences
from hookfast.storage.tables import (
    ApiKey,
    Endpoint,
    EventType,
    InboxEntry,
    Job,
    Record,
    SigningKey,
    Source,
    Subscription,
    Tenant,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A table's resource name, and the columns that are not logged, because the entry says the same
    anyway or because they are Hookfast's own bookkeeping."""

    resource: str
    unlogged: tuple[str, ...]
    key: str = "id"


_TIMES = ("created_at", "updated_at")
_NAMES = {"meta": "metadata", "json_schema": "schema"}
"""Columns that have another name in the API."""

AUDITED: Mapping[type[Record], Audited] = {
    Tenant: Audited(resource="tenant", unlogged=("id", "deleted_at", *_TIMES)),
    ApiKey: Audited(
        resource="api_key",
        unlogged=(
            *("id", "tenant_id", "hint", "key_sha256"),
            *("created_at", "revoked_at", "last_used_at"),
        ),
    ),
    EventType: Audited(
        resource="event_type",
        key="name",
        unlogged=("name", *_TIMES),
    ),
    Endpoint: Audited(resource="endpoint", unlogged=("id", "tenant_id", "deleted_at", *_TIMES)),
    Subscription: Audited(resource="subscription", unlogged=("id", "tenant_id", *_TIMES)),
    Source: Audited(resource="source", unlogged=("id", "tenant_id", "deleted_at", *_TIMES)),
    InboxEntry: Audited(
        resource="inbox",
        unlogged=(
            *("id", "source_id", "tenant_id", "key", "event_type", "business_key"),
            *("payload_sha256", "content_type", "headers", "body", "hops", "last_error"),
            *("duplicates", "conflicts", "conflict_sha256", "received_at", "last_seen_at"),
        ),
    ),
    SigningKey: Audited(
        resource="signing_key",
        key="kid",
        unlogged=("kid", "public", "sealed", "created_at"),
    ),
    Job: Audited(
        resource="job",
        unlogged=(
            *("id", "tenant_id", "status", "done", "skipped", "failed", "cursor", "in_hand"),
            *("error", "cancel_requested", "requested_by", *_TIMES),
            *("started_at", "finished_at", "workflow_started_at"),
        ),
    ),
}


def facts(row: Record) -> dict[str, Any]:
    """Return the logged columns of a row, under their API names."""
    columns = type(row).__table__.columns.keys()
    unlogged = AUDITED[type(row)].unlogged
    return api_names({name: getattr(row, name) for name in columns if name not in unlogged})


def api_names(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns under their API names."""
    return {_NAMES.get(name, name): value for name, value in columns.items()}


def created(row: Record, **more: Any) -> Change:
    """Return the change that created a row; `more` are further facts."""
    return _change(row, "create", {}, facts(row) | more)


def deleted(row: Record, **more: Any) -> Change:
    """Return the change that deleted a row, or marked it as deleted; `more` are further facts."""
    return _change(row, "delete", facts(row) | more, {})


def updated(row: Record, *, before: Facts, after: Facts | None = None) -> Change | None:
    """Return the change of a row from `before` to `after` (default: the row now); None if nothing
    is different."""
    change = _change(row, "update", before, facts(row) if after is None else after)
    return change if change.changes else None


def done(
    action: AuditAction, row: Record, *, before: Facts | None = None, after: Facts | None = None
) -> Change:
    """Return the change of a row by an action that has a name of its own."""
    audited = AUDITED[type(row)]
    resource_id = getattr(row, audited.key)
    return Change(
        action=action,
        resource=audited.resource,
        resource_id=resource_id,
        tenant_id=resource_id if isinstance(row, Tenant) else getattr(row, "tenant_id", None),
        changes=differences(before or {}, after or {}),
    )


def _change(row: Record, verb: str, before: Facts, after: Facts) -> Change:
    action: Any = f"{AUDITED[type(row)].resource}.{verb}"
    return done(action, row, before=before, after=after)
