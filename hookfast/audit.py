"""What the audit log says of a change: who made it, to what, and what is different. Pure.

A log that is kept for years and shown to tenants must not hold what would be a leak: of secrets it
says that there are some, of headers the names, of URLs everything but the query.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from hookfast.clock import rfc3339

AuditAction = Literal[
    "api_key.create",
    "api_key.revoke",
    "audit.expire",
    "dead_letter.redrive",
    "delivery.cancel",
    "delivery.pause",
    "delivery.resend",
    "delivery.resume",
    "endpoint.create",
    "endpoint.delete",
    "endpoint.disable",
    "endpoint.enable",
    "endpoint.pause",
    "endpoint.recover",
    "endpoint.resume",
    "endpoint.rotate_secret",
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
"""What was done."""

Facts = Mapping[str, Any]
"""What is so of something, by the names the API has for it. Secrets are masked later, not here."""

Differences = dict[str, dict[str, Any]]
"""By name, what a fact was (`before`) and is (`after`); one that did not exist is left out."""

MASK: Final = "***"
MAX_VALUE_BYTES: Final = 16_384
"""A value that is longer as JSON is told by its length and its SHA-256: the schema of an event type
can be as long as a request."""

_SHOWN_OF_A_SECRET: Final = ("kind", "public", "created_at", "expires_at")
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {}, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who made a change. `kind` is the scope of the API key that was used; or `portal`, somebody
    who came by a portal link, which `key_id` made; `system`, which is Hookfast by itself; or `cli`,
    a command that works on the database."""

    kind: str
    key_id: str | None = None
    request_id: str | None = None
    client_address: str | None = None


PORTAL: Final = "portal"
SYSTEM: Final = Actor(kind="system")
CLI: Final = Actor(kind="cli")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change. `tenant_id` is the tenant it matters to, None where that is only the operator;
    `resource` the kind of thing that `resource_id` names."""

    action: AuditAction
    resource: str
    resource_id: str
    tenant_id: str | None
    changes: Differences = field(default_factory=dict)


def differences(before: Facts, after: Facts) -> Differences:
    """What is different, masked. Facts that only one side has are those of something that was made
    or is gone: there, empty ones are left out.

    Values are compared before they are masked: a new token in a URL is a difference, although both
    sides look the same.
    """
    old, new = dict(_flat(before)), dict(_flat(after))
    found: Differences = {}
    for name in {**old, **new}:
        if name in old and name in new:
            if old[name] != new[name]:
                found[name] = {
                    "before": _shown(name, old[name]),
                    "after": _shown(name, new[name]),
                }
        elif name in old and old[name] not in _EMPTY:
            found[name] = {"before": _shown(name, old[name])}
        elif name in new and new[name] not in _EMPTY:
            found[name] = {"after": _shown(name, new[name])}
    return found


def _flat(facts: Facts) -> Iterator[tuple[str, Any]]:
    """The facts, with each header as one of its own: which of them changed can then be told without
    their values."""
    for name, value in facts.items():
        if name == "headers":
            for header, content in value.items():
                yield f"headers.{header}", content
        else:
            yield name, value


def _shown(name: str, value: Any) -> Any:
    if name.startswith("headers."):
        return MASK
    if name == "url":
        address, mark, _ = str(value).partition("?")
        return f"{address}?{MASK}" if mark else address
    if name == "secrets":
        return [{key: one[key] for key in _SHOWN_OF_A_SECRET if key in one} for one in value]
    return _bounded(rfc3339(value) if isinstance(value, datetime) else value)


def _bounded(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False).encode()
    if len(text) <= MAX_VALUE_BYTES:
        return value
    return {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
