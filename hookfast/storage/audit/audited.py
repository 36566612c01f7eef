"""What the audit log tells of each row: one list of columns per table. A column that is in neither
list of its table fails a test, so that nobody forgets to decide."""

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
    """A table: what its rows are called, the columns that are told, and those that are not because
    the entry says it anyway, or because they are Hookfast's own bookkeeping."""

    resource: str
    told: tuple[str, ...]
    untold: tuple[str, ...]
    key: str = "id"


_TIMES = ("created_at", "updated_at")
_NAMES = {"meta": "metadata", "json_schema": "schema", "chosen": "filter"}
"""Columns that the API calls otherwise."""

AUDITED: Mapping[type[Record], Audited] = {
    Tenant: Audited(resource="tenant", told=("name", "meta"), untold=("id", "deleted_at", *_TIMES)),
    ApiKey: Audited(
        resource="api_key",
        told=("scope", "name", "expires_at"),
        untold=(
            *("id", "tenant_id", "hint", "key_sha256"),
            *("created_at", "revoked_at", "last_used_at"),
        ),
    ),
    EventType: Audited(
        resource="event_type",
        key="name",
        told=("description", "json_schema"),
        untold=("name", *_TIMES),
    ),
    Endpoint: Audited(
        resource="endpoint",
        told=(
            *("mode", "url", "description", "owner_emails", "verification", "signatures"),
            *("signature_hash", "secrets", "retry_plan", "timeout_seconds"),
            *("rate_limit_per_second", "max_in_flight", "headers", "encryption"),
            *("allowed_networks", "circuit", "meta", "state", "state_reason"),
        ),
        untold=("id", "tenant_id", "deleted_at", *_TIMES),
    ),
    Subscription: Audited(
        resource="subscription",
        told=("endpoint_id", "events", "payload", "active"),
        untold=("id", "tenant_id", *_TIMES),
    ),
    Source: Audited(
        resource="source",
        told=(
            *("name", "provider", "secrets", "options", "allowed_networks", "event_types"),
            *("id_expression", "idempotency", "active"),
        ),
        untold=("id", "tenant_id", "deleted_at", *_TIMES),
    ),
    InboxEntry: Audited(
        resource="inbox",
        told=("status", "event_id", "suppressed_by"),
        untold=(
            *("id", "source_id", "tenant_id", "key", "event_type", "business_key"),
            *("payload_sha256", "content_type", "headers", "body", "last_error"),
            *("duplicates", "conflicts", "conflict_sha256", "received_at", "last_seen_at"),
        ),
    ),
    SigningKey: Audited(
        resource="signing_key",
        key="kid",
        told=("kind", "signs_from", "retired_at"),
        untold=("kid", "public", "sealed", "created_at"),
    ),
    Job: Audited(
        resource="job",
        told=("kind", "action", "chosen", "total", "rate_per_second"),
        untold=(
            *("id", "tenant_id", "status", "done", "skipped", "failed", "cursor", "in_hand"),
            *("error", "cancel_requested", "requested_by", *_TIMES),
            *("started_at", "finished_at", "workflow_started_at"),
        ),
    ),
}


def facts(row: Record) -> dict[str, Any]:
    """What is told of a row, as it is now."""
    return named({name: getattr(row, name) for name in AUDITED[type(row)].told})


def named(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns under the names that the API has for them."""
    return {_NAMES.get(name, name): value for name, value in columns.items()}


def created(row: Record, **more: Any) -> Change:
    """That a row was made; `more` are further facts."""
    return _change(row, "create", {}, facts(row) | more)


def deleted(row: Record, **more: Any) -> Change:
    """That a row, or what it stands for, is gone; `more` are further facts."""
    return _change(row, "delete", facts(row) | more, {})


def updated(row: Record, *, before: Facts, after: Facts | None = None) -> Change | None:
    """That a row was changed from `before` to `after` (default: to what it is now); None where
    nothing is different."""
    change = _change(row, "update", before, facts(row) if after is None else after)
    return change if change.changes else None


def done(
    action: AuditAction, row: Record, *, before: Facts | None = None, after: Facts | None = None
) -> Change:
    """That something was done with a row that has a name of its own."""
    return _about(row, action, before or {}, after or {})


def _change(row: Record, verb: str, before: Facts, after: Facts) -> Change:
    action: Any = f"{AUDITED[type(row)].resource}.{verb}"
    return _about(row, action, before, after)


def _about(row: Record, action: AuditAction, before: Facts, after: Facts) -> Change:
    audited = AUDITED[type(row)]
    own = getattr(row, audited.key)
    return Change(
        action=action,
        resource=audited.resource,
        resource_id=own,
        tenant_id=own if isinstance(row, Tenant) else getattr(row, "tenant_id", None),
        changes=differences(before, after),
    )
