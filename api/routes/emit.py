"""Emitting events, one at a time or in batches. These are the most frequent requests, so the routes
are lean and their responses are written without a model; `EmittedEvent` and `EmittedBatch` only
document them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import orjson
from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel, Field

from api.access.authentication import Emitter
from api.answers.problems import ProblemModel, problem_of
from api.answers.request_id import request_id
from api.context.context import AppContext
from api.forms.event import (
    EXAMPLES,
    KEY_PATTERN,
    MAX_BATCH,
    MAX_KEY,
    BatchEventForm,
    EventForm,
    parse_batch,
    parse_event,
)
from api.http.fields import Time
from api.http.lean_route import LeanRoute
from api.http.routing import RawJson, router
from api.limits.backlog import check_backlog
from hookfast.clock import rfc3339
from hookfast.errors import HookfastError
from hookfast.storage.emitting.emit import Accepted, EmitResult
from hookfast.storage.events.new_events import CommittedEvent, NewEvent
from hookfast.telemetry import spans, traceparent

routes = router("Events", LeanRoute)

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY,
        pattern=KEY_PATTERN,
        description="Makes it safe to repeat the request: the same key with the same event returns "
        "the same result and emits no second event. Each tenant has its own keys; an operator's "
        "are one set for all tenants.",
    ),
]
TraceparentHeader = Annotated[
    str | None,
    Header(
        alias="traceparent",
        description="W3C Trace Context: the event's deliveries join the caller's trace.",
    ),
]


class EmittedEvent(BaseModel):
    """A committed event."""

    id: str = Field(description="Id of the event, `evt_…`, also in the body of its deliveries.")
    type: str = Field(description="The event's type, as it was sent.")
    created_at: Time = Field(description="When the event was emitted.")
    deliveries: int = Field(description="The number of deliveries, one per subscription.")


class AcceptedItem(EmittedEvent):
    """A committed event of a batch."""

    status: Literal[202] = Field(202, description="What a single request would get.")
    replayed: bool = Field(description="It was committed earlier with the same idempotency key.")


class RefusedItem(BaseModel):
    """A rejected event of a batch; the others are not affected."""

    status: int = Field(description="The HTTP status that a single request would get.")
    problem: ProblemModel = Field(description="Why the event was rejected, and what to do.")


class EmittedBatch(BaseModel):
    """One result per event, in order."""

    data: list[AcceptedItem | RefusedItem] = Field(
        description="The result of each event, in the order of the request."
    )
    accepted: int = Field(description="Events that are committed.")
    rejected: int = Field(description="Events that are not; send them again once corrected.")


def _body(schema: dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    content = {"schema": schema, "examples": examples}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


_BATCH_SCHEMA = {
    "type": "object",
    "properties": {
        "events": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_BATCH,
            "description": f"1 to {MAX_BATCH} events; each has a result of its own.",
            "items": BatchEventForm.model_json_schema(),
        }
    },
    "required": ["events"],
    "additionalProperties": False,
}
_BATCH_EXAMPLE = {
    "summary": "Two events",
    "value": {
        "events": [
            EXAMPLES["tenant"]["value"] | {"idempotency_key": "invoice-in_8Tx2-paid"},
            EXAMPLES["broadcast"]["value"],
        ]
    },
}


@routes.post(
    "/events",
    status_code=202,
    response_model=EmittedEvent,
    summary="Emit an event",
    dependencies=[Depends(check_backlog)],
    openapi_extra=_body(EventForm.model_json_schema(), dict(EXAMPLES)),
    responses={
        202: {
            "headers": {
                "Idempotent-Replayed": {
                    "description": "`true` when an earlier request with this key emitted it.",
                    "schema": {"type": "string", "enum": ["true"]},
                }
            }
        }
    },
)
async def emit_event(
    raw: RawJson,
    request: Request,
    context: AppContext,
    principal: Emitter,
    idempotency_key: IdempotencyKey = None,
    trace: TraceparentHeader = None,
) -> Response:
    """Responds once the event and its deliveries are committed. They will be made even if this
    process, Temporal or the receivers fail. While more deliveries wait than `HOOKFAST_MAX_BACKLOG`
    allows, the response is 503 (`overloaded`) and nothing is stored. If the tenant's quota of
    events per day is used up, it is 429 (`daily_quota_exceeded`) until midnight UTC."""
    event = parse_event(raw, caller=principal, key=idempotency_key, now=context.clock())
    [result] = await context.emitter.emit(
        [event],
        scope=principal.idempotency_scope,
        traceparent=_trace(trace),
        request_id=request_id(request),
    )
    if isinstance(result, HookfastError):
        raise result
    response = _accepted(_members(result.event))
    if result.replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return response


@routes.post(
    "/events/batch",
    status_code=202,
    response_model=EmittedBatch,
    summary="Emit up to 1000 events",
    dependencies=[Depends(check_backlog)],
    openapi_extra=_body(_BATCH_SCHEMA, {"batch": _BATCH_EXAMPLE}),
)
async def emit_batch(
    raw: RawJson,
    request: Request,
    context: AppContext,
    principal: Emitter,
    idempotency_key: IdempotencyKey = None,
    trace: TraceparentHeader = None,
) -> Response:
    """Every event gets its own result. Accepted events are committed together; rejected events have
    the reason in their result and do not affect the others. While more deliveries wait than
    `HOOKFAST_MAX_BACKLOG` allows, the whole request gets 503 (`overloaded`). Events beyond a
    tenant's quota of events per day get 429 (`daily_quota_exceeded`) as their result."""
    parsed = await asyncio.to_thread(  # a large batch takes too long for the event loop
        parse_batch,
        raw,
        caller=principal,
        key=idempotency_key,
        max_event_bytes=context.settings.max_event_bytes,
        now=context.clock(),
    )
    good = [event for event in parsed if isinstance(event, NewEvent)]
    emitted = iter(
        await context.emitter.emit(
            good,
            scope=principal.idempotency_scope,
            traceparent=_trace(trace),
            request_id=request_id(request),
        )
    )
    results = [next(emitted) if isinstance(event, NewEvent) else event for event in parsed]
    accepted = sum(isinstance(result, Accepted) for result in results)
    return _accepted(
        {
            "data": [_item(result) for result in results],
            "accepted": accepted,
            "rejected": len(results) - accepted,
        }
    )


def _trace(header: str | None) -> str:
    """Return the request's span if it is traced, otherwise the caller's trace, or a new one if the
    header is missing or invalid."""
    return spans.current() or traceparent.parse(header or "") or traceparent.new()


def _accepted(document: dict[str, Any]) -> Response:
    return Response(orjson.dumps(document), status_code=202, media_type="application/json")


def _members(event: CommittedEvent) -> dict[str, Any]:
    return {
        "id": event.id,
        "type": event.type,
        "created_at": rfc3339(event.created_at),
        "deliveries": event.deliveries,
    }


def _item(result: EmitResult) -> dict[str, Any]:
    if isinstance(result, Accepted):
        return {**_members(result.event), "status": 202, "replayed": result.replayed}
    problem = problem_of(result)
    item = RefusedItem(status=problem.status, problem=ProblemModel(**problem.document()))
    return item.model_dump(mode="json")
