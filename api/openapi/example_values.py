"""The values of the examples in the OpenAPI document. They are of one shop: Acme emits
`order.invoice.paid`, and its endpoint https://example.com/webhooks receives it at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from hookfast.deliveries.actions import ACTIONS

_HEX: Final = "019a0b3c5d6e7f8091a2b3c4d5e6f708"
IDS: Final[Mapping[str, str]] = {
    noun: f"{prefix}_{_HEX}"
    for noun, prefix in {
        "attempt": "att",
        "audit": "aud",
        "delivery": "dlv",
        "endpoint": "ep",
        "event": "evt",
        "inbox": "inb",
        "job": "job",
        "key": "key",
        "run": "ret",
        "source": "src",
        "subscription": "sub",
        "tenant": "tnt",
    }.items()
}
"""The id of each kind of object, by its noun."""
DATA: Final[Mapping[str, Any]] = {"invoice_id": "in_8Tx2", "amount": 129900, "currency": "EUR"}
"""The data of the shop's event."""
TIME: Final = "2026-11-21T09:30:00.000000Z"
"""When everything happened, unless `VALUES` says otherwise."""

_SOON = "2026-11-21T09:30:00.184000Z"
_HOUR = "2026-11-21T09:00:00.000000Z"
_NEXT_DAY = "2026-11-22T09:30:00.000000Z"
_CURSOR = "djEuNzQyOS4xMjg4MTIz"
_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_TYPE = "order.invoice.paid"
_EVENT = {"id": IDS["event"], "type": _TYPE, "created_at": TIME, "tenant_id": IDS["tenant"]}
_BODY = '{"id":"%s","type":"%s","data":{"invoice_id":"in_8Tx2","amount":129900}}'


def _workflow(name: str) -> Mapping[str, Any]:
    url = f"http://127.0.0.1:8233/namespaces/default/workflows/{quote(name, safe='')}"
    return {"id": name, "url": url, "kept_until": None}


VALUES: Final[Mapping[str, Any]] = {
    # -- by the name of the member
    "accepted": 1,
    "active": True,
    "allowed_networks": [],
    "complete": True,
    "delivery_status": "delivered",
    "inbox_id": None,
    "keys": [
        {"kty": "RSA", "n": "t6Q8…", "e": "AQAB", "kid": "8d3f1c", "use": "sig", "alg": "RS256"}
    ],
    "message_id": IDS["delivery"],
    "updated_at": _SOON,
    "workflow": _workflow(f"delivery/{IDS['delivery']}"),
    "acknowledged": _CURSOR,
    "action": "resend",
    "actor": "tenant",
    "attempt_count": 1,
    "body": _BODY % (IDS["event"], _TYPE),
    "cause": "failures",
    "changes": {"active": {"before": True, "after": False}},
    "circuit": {"failure_threshold": 5},
    "client_address": "203.0.113.7",
    "content_type": "application/json",
    "count": 12,
    "cursor": _CURSOR,
    "data": DATA,
    "days": 30,
    "deleted": 1820,
    "deliveries": 1,
    "done": True,
    "duration_ms": 84.2,
    "event": _EVENT | {"data": DATA},
    "event_type": _TYPE,
    "events": [_TYPE, "order.refund.*"],
    "exact": True,
    "expires_at": _NEXT_DAY,
    "filter": {"amount": {"$gte": 10_000}},
    "finished_at": _SOON,
    "hint": "hf_4Kq9",
    "last_used_at": TIME,
    "last_accepted_at": TIME,
    "limit": 100,
    "matches": True,
    "matching": 12,
    "metadata": {"plan": "gold"},
    "missing": [],
    "name": "Acme",
    "next_run_at": "2026-11-22T03:00:00.000000Z",
    "number": 1,
    "owner_emails": ["ops@example.com"],
    "p50_ms": 61.4,
    "p95_ms": 148.0,
    "p99_ms": 230.5,
    "delivery_p50_ms": 75.1,
    "delivery_p95_ms": 182.0,
    "delivery_p99_ms": 290.0,
    "page": f"/dashboard/endpoints/{IDS['endpoint']}",
    "payload_sha256": _SHA256,
    "percent": 40.0,
    "pointer": "/events/1",
    "provider": "github",
    "rate_per_second": 20.0,
    "requested_by": IDS["key"],
    "request_headers": [["X-Hook-Id", IDS["delivery"]], ["X-Hook-Topic", _TYPE]],
    "request_id": "req-5f1e",
    "resource": "subscription",
    "resource_id": IDS["subscription"],
    "response_excerpt": "ok",
    "response_headers": [["content-type", "text/plain"]],
    "retry_plan": "stepped",
    "scope": "tenant",
    "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "signature_hash": "sha256",
    "signatures": ["hook", "standard"],
    "size": 8214,
    "since": "2026-11-20T09:30:00.000000Z",
    "state": "enabled",
    "status_code": 200,
    "success_rate": 1.0,
    "succeeded": True,
    "tail_cursor": _CURSOR,
    "timeout_seconds": 10.0,
    "title": "https://example.com/webhooks",
    "topics": [_TYPE, "order.refund.*"],
    "total": 30,
    "type": _TYPE,
    "url": "https://example.com/webhooks",
    "used": 3,
    # -- by the name of the object and the member, where another value fits better
    "AboutDeadLetter.attempt_count": 9,
    "AboutDeadLetter.reason": "retries_exhausted",
    "AboutDisabled.reason": "No delivery succeeded for 5 days.",
    "AboutLoop.hops": 9,
    "AboutLoop.max_hops": 8,
    "AboutOutage.last_error": "The response was 503.",
    "AgeView.name": "deliveries",
    "AttemptCounts.by_result": {"success": 29, "status": 1},
    "AuditView.action": "subscription.update",
    "CreatedKey.key": "hf_4Kq9xXn3VbY0sT7uLwRzE1aMcPdFgHjK",
    "DeliveryCounts.by_status": {"delivered": 29, "retrying": 1},
    "DryRun.by_status": {"dead": 12},
    "EndpointView.description": "Acme's accounting",
    "EventTypeView.description": "An invoice was paid in full.",
    "EventTypeView.name": _TYPE,
    "EventTypeView.schema": {"type": "object", "required": ["invoice_id"]},
    "FigureCounts.accepted": 30,
    "FigureCounts.attempts": 31,
    "FigureCounts.by_result": {"5xx": 1, "success": 29, "timeout": 1},
    "FigureCounts.delivered": 29,
    "FigureCounts.succeeded": 29,
    "FigureSeries.since": _HOUR,
    "FigureSeries.step_seconds": 3600,
    "FigureSeries.until": "2026-11-21T10:00:00.000000Z",
    "FigureStep.at": _HOUR,
    "HealthView.last_success_at": TIME,
    "InboxSummary.event_type": "github.push.received",
    "InboxSummary.key": "id:72d3162e-cc78-11e3-81ab-4c9367dc0958",
    "JobView.done": 12,
    "JobView.eta_seconds": 0.9,
    "JobView.filter": {"statuses": ["dead", "gone"], "event_type": _TYPE},
    "JobView.finished_at": None,
    "JobView.kind": "redrive",
    "JobView.started_at": TIME,
    "JobView.status": "running",
    "KeyView.name": "Acme's backend",
    "ListedTest.id": IDS["delivery"],
    "kept": True,
    "request_body": _BODY % (IDS["event"], _TYPE),
    "LatencyView.p50": 61.4,
    "LatencyView.p95": 148.0,
    "LatencyView.p99": 230.5,
    "PatternWarning.detail": "No registered event type matches 'order.refund.*' yet.",
    "PollView.next_cursor": _CURSOR,
    "PortalLinkView.scope": "tenant:read",
    "PortalLinkView.url": "https://hooks.example.com/portal/open?sig=eyJ0ZW5hbnQi",
    "ReasonCount.reason": "retries_exhausted",
    "RunView.status": "done",
    "SearchHit.kind": "endpoint",
    "SearchHit.url": f"/v1/endpoints/{IDS['endpoint']}",
    "SearchResults.looks_like": "url",
    "SourceView.event_types": {"github.push.received": "code.branch.pushed"},
    "SourceView.name": "Acme's repositories",
    "SourceView.url": f"https://hooks.example.com/in/{IDS['source']}",
    "SweepView.before": "2026-10-22T00:00:00.000000Z",
    "SweepView.name": "deliveries",
    "AboutOutage.consecutive_failures": 5,
    "AboutOutage.episode": 1,
    "AboutOutage.failing_since": TIME,
    "AboutOutage.opened_at": TIME,
    "AcceptedAction.id": IDS["delivery"],
    "CircuitView.cause": None,
    "CircuitView.workflow": None,
    "CreatedSource.secret": None,
    "DeadLetterStatsView.by_age": {
        "under_1_hour": 2,
        "under_1_day": 9,
        "under_7_days": 19,
        "older": 0,
    },
    "DeliveryView.status": "delivered",
    "EndpointView.updated_at": TIME,
    "HealthView.mail": [],
    "KeyView.expires_at": None,
    "PreviewView.checked": 20,
    "InboundAnswer.id": IDS["inbox"],
    "InboxSummary.hops": 1,
    "InboxView.headers": [["content-type", "application/json"], ["x-github-event", "push"]],
    "JobView.workflow": _workflow(f"job/{IDS['job']}"),
    "PortalLinkView.endpoint_id": None,
    "RunView.days": 1,
    "RunView.workflow": _workflow("retention-workflow-2026-11-21T03:00:00Z"),
    "SearchHit.detail": "enabled",
    "SearchHit.id": IDS["endpoint"],
    "SearchResults.hint": None,
    "SecretView.expires_at": None,
    "SourceSecretView.expires_at": None,
    "StartedView.id": IDS["run"],
    "StartedView.workflow": _workflow(f"retention/{IDS['run']}"),
    "SweepView.pinned": [],
    "UsageView.subscriptions": {"used": 5, "limit": None},
    "UsageView.sources": {"used": 1, "limit": 10},
    "UsageView.events_per_day": {
        "used": 1204,
        "limit": 100_000,
        "day": "2026-11-21",
        "resets_at": "2026-11-22T00:00:00.000000Z",
    },
}
"""Examples of members. A value that does not fit a member's schema is not used for it."""

PRESENT: Final = frozenset({"job", "last_answer", "latency_ms", "result", "subscription"})
"""Members that may be null and are objects or words in the examples."""

OPERATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "act_on_deliveries": {"kind": "action"},
    **{f"{name}_delivery": {"action": name} for name in ACTIONS},
    "cancel_job": {"status": "cancelled", "cancel_requested": True, "eta_seconds": None},
    "create_operator_key": {"tenant_id": None, "scope": "emit", "name": "order service"},
    "disable_endpoint": {
        "state": "disabled",
        "state_reason": "Disabled by request.",
        "health": "disabled",
    },
    "list_dead_letters": {
        "status": "dead",
        "reason": "retries_exhausted",
        "attempt_count": 9,
        "retry_count": 8,
        "result": "status",
        "status_code": 503,
    },
    "list_operator_keys": {"tenant_id": None, "scope": "operator", "name": "platform"},
    "pause_endpoint": {
        "state": "paused",
        "state_reason": "Paused by request.",
        "health": "paused",
    },
    "receive_webhook": {"event_type": "github.push.received"},
    "recover_endpoint": {"kind": "recover", "filter": {"endpoint_id": IDS["endpoint"]}},
    "replay_event": {
        "kind": "replay",
        "filter": {"event_id": IDS["event"]},
        "total": 1,
        "done": 0,
        "percent": 0.0,
        "matching": 1,
        "by_status": {"delivered": 1},
    },
}
"""What differs in the examples of an operation, by its id."""

EXTENDS: Final[Mapping[str, str]] = {
    "AboutDisabled": "AboutOutage",
    "AboutRecovery": "AboutOutage",
    "AcceptedItem": "EmittedEvent",
    "CreatedEndpoint": "EndpointView",
    "CreatedKey": "KeyView",
    "CreatedSource": "SourceView",
    "DeliveryDetail": "DeliveryView",
    "EnabledEndpoint": "EndpointView",
    "FigureStep": "FigureCounts",
    "FigureSums": "FigureCounts",
    "InboxView": "InboxSummary",
    "KeptTest": "ListedTest",
    "ReplayView": "JobView",
    "RotatedEndpoint": "EndpointView",
}
"""Objects with the members of another one, and some more."""
