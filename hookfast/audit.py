"""Entries of the audit log: who changed what, and the differences with secrets masked. Pure.

The log is kept for years and shown to tenants, so it must not leak anything: for secrets it records
only that they exist, for headers only their names, for credentials what responses show, and for
URLs everything but the query.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from hookfast.clock import rfc3339
from hookfast.deliveries.actions import AuditName
from hookfast.deliveries.evidence import MASK
from hookfast.strict_json.text import to_text

AuditAction = Literal[
    "api_key.create",
    "api_key.revoke",
    "audit.expire",
    "dead_letter.redrive",
    AuditName,
    "endpoint.create",
    "endpoint.delete",
    "endpoint.delete_authentication",
    "endpoint.delete_tls",
    "endpoint.disable",
    "endpoint.enable",
    "endpoint.pause",
    "endpoint.recover",
    "endpoint.resume",
    "endpoint.rotate_secret",
    "endpoint.set_authentication",
    "endpoint.set_tls",
    "endpoint.update",
    "event.replay",
    "event_type.create",
    "event_type.delete",
    "event_type.update",
    "inbox.retry",
    "job.cancel",
    "portal_link.create",
    "retention.run",
    "secrets.rekey",
    "signing_key.create",
    "signing_key.rotate",
    "source.create",
    "source.delete",
    "source.rotate_secret",
    "source.update",
    "subscription.create",
    "subscription.delete",
    "subscription.update",
    "tenant.create",
    "tenant.delete",
    "tenant.update",
]
"""The actions that the audit log records."""

Facts = Mapping[str, Any]
"""The fields of a resource, by their names in the API. They are not masked yet."""

Differences = dict[str, dict[str, Any]]
"""The old (`before`) and new (`after`) value of each changed field. A side that did not have the
field is left out."""

MAX_VALUE_BYTES: Final = 16_384
"""A value whose JSON is longer is recorded as its length and SHA-256: the schema of an event type
can be as long as a request."""

_VISIBLE_IN_SECRETS: Final = ("kind", "public", "created_at", "expires_at")
_VISIBLE_IN_CREDENTIALS: Final = ("kind", "shown", "created_at", "expires_at")
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {}, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who made a change. `kind` is the scope of the API key that was used; `portal` for somebody
    with a portal link, which the key `key_id` created; `system` for Hookfast itself; or `cli` for a
    command that works on the database."""

    kind: str
    key_id: str | None = None
    request_id: str | None = None
    client_address: str | None = None


PORTAL: Final = "portal"
SYSTEM: Final = Actor(kind="system")
CLI: Final = Actor(kind="cli")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedChange:
    """One change. `tenant_id` is the tenant that it concerns, None if it concerns only the
    operator; `resource` is the kind of thing that `resource_id` names."""

    action: AuditAction
    resource: str
    resource_id: str
    tenant_id: str | None
    changes: Differences = field(default_factory=dict)


def differences(before: Facts, after: Facts) -> Differences:
    """Return the differences between two sets of fields, masked. Empty fields that only one side
    has are left out: the resource was created or deleted.

    Values are compared before they are masked: a new token in a URL is a difference, although both
    sides look the same.
    """
    old, new = dict(_flat(before)), dict(_flat(after))
    found: Differences = {}
    for name in {**old, **new}:
        if name in old and name in new:
            if not _is_same(old[name], new[name]):
                found[name] = {
                    "before": _masked(name, old[name]),
                    "after": _masked(name, new[name]),
                }
        elif name in old and old[name] not in _EMPTY:
            found[name] = {"before": _masked(name, old[name])}
        elif name in new and new[name] not in _EMPTY:
            found[name] = {"after": _masked(name, new[name])}
    return found


def _is_same(old: Any, new: Any) -> bool:
    """Whether two values are written alike: for Python, 1, 1.0 and true are equal."""
    if old != new or not isinstance(old, dict | list):
        return bool(old == new)
    return to_text(old, sort_keys=True) == to_text(new, sort_keys=True)


def _flat(facts: Facts) -> Iterator[tuple[str, Any]]:
    """Yield the fields, with each header as a field of its own, so that the log can say which
    headers changed without their values."""
    for name, value in facts.items():
        if name == "headers":
            for header, content in value.items():
                yield f"headers.{header}", content
        else:
            yield name, value


def _masked(name: str, value: Any) -> Any:
    if name.startswith("headers."):
        return MASK
    if name == "url":
        return _without_query(str(value))
    if name == "secrets":
        return [{key: one[key] for key in _VISIBLE_IN_SECRETS if key in one} for one in value]
    if name == "credentials":
        value = [_visible_of(one) for one in value]
    return _bounded(rfc3339(value) if isinstance(value, datetime) else value)


def _visible_of(credential: Mapping[str, Any]) -> dict[str, Any]:
    visible = {key: credential[key] for key in _VISIBLE_IN_CREDENTIALS}
    if "token_url" in visible["shown"]:
        url = _without_query(visible["shown"]["token_url"])
        visible["shown"] = visible["shown"] | {"token_url": url}
    return visible


def _without_query(url: str) -> str:
    address, mark, _ = url.partition("?")
    return f"{address}?{MASK}" if mark else address


def _bounded(value: Any) -> Any:
    text = to_text(value, layout="spaced").encode()
    if len(text) <= MAX_VALUE_BYTES:
        return value
    return {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
