"""Checks of an endpoint: a test request, another verification, and statistics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal, Reader, Writer
from api.access.ownership import found, owned
from api.forms.endpoint import Verification, require_push
from api.forms.payload import MappingText
from api.forms.verification import EVERYTHING, verify_stored
from api.http.fields import EndpointPath, Input, SubscriptionId, Time, TimeInput, example
from api.http.routing import router
from api.process.context import AppContext, Context
from hookfast.deliveries.mapping import MappingFailed, check_mapping, mapped_body
from hookfast.deliveries.outcome import DeliveryStatus, Outcome, Result
from hookfast.dispatch.request import outgoing_request
from hookfast.errors import InvalidInput, NotFound
from hookfast.events.catalogue import unknown_type
from hookfast.events.envelope import full_body
from hookfast.events.event_type import MAX_LENGTH, parse_event_type
from hookfast.ids import new_id
from hookfast.inbox.samples import sample_data
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.endpoints import endpoints, subscriptions
from hookfast.storage.endpoints.endpoint_cache import CachedEndpoint
from hookfast.storage.events import event_types
from hookfast.storage.figures import endpoint_stats
from hookfast.storage.figures.endpoint_stats import MAX_ATTEMPTS, MAX_DELIVERIES, EndpointStats
from hookfast.storage.tables import Endpoint, EventType
from hookfast.strict_json.parser import parse_object
from hookfast.telemetry import traceparent

routes = router("Endpoint checks")

TEST_HEADER = "X-Hook-Test"
_WINDOW = timedelta(hours=24)
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_MAX_MATCHES = 200
_SAMPLE = '{"test":true}'
_SHARES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
_ENDED = (DeliveryStatus.DELIVERED, DeliveryStatus.DEAD, DeliveryStatus.GONE)


class TestForm(Input):
    """The event to send as a test, or to preview."""

    model_config = example(type="order.invoice.paid")

    type: str = Field(
        max_length=MAX_LENGTH,
        description="A registered event type. Its data is the first of the `examples` in the "
        "schema; without examples, a sample of the provider's for an event type such as "
        '`github.push.received`; otherwise `{"test": true}`.',
        examples=["order.invoice.paid"],
    )
    subscription_id: SubscriptionId | None = Field(
        None,
        description="The endpoint's subscription whose payload to use; default: the oldest active "
        "one to this event type. A `mapped` body is sent as its mapping makes it, all others as "
        "`full`.",
    )
    dry_run: bool = Field(
        False, description="Send nothing; only return the `body` that would be sent."
    )
    data: Any = Field(
        None, description="Only with `dry_run`: the event's data, instead of the sample."
    )
    mapping: MappingText | None = Field(
        None, description="Only with `dry_run`: a mapping to try, instead of the subscription's."
    )


class TestView(BaseModel):
    """One test request and its result. In a dry run, the members of the result are null."""

    endpoint_id: str
    message_id: str = Field(description="Its `X-Hook-Id`; there is no delivery with this id.")
    type: str = Field(description="The event type of the test.")
    dry_run: bool = Field(description="Whether nothing was sent.")
    payload: Literal["full", "mapped"] = Field(
        description="Whether the body is the event's (`full`) or the mapping's result (`mapped`)."
    )
    body: str = Field(description="The body, before any encryption.")
    succeeded: bool | None = Field(None, description="Whether the receiver answered 2xx.")
    result: Result | None = None
    status_code: int | None = None
    error: str | None = Field(None, description="What went wrong, in a sentence; null on success.")
    duration_ms: float | None = None
    response_excerpt: str | None = Field(None, description="The start of the response's body.")

    def with_outcome(self, outcome: Outcome) -> TestView:
        """Return the view with the result of the request."""
        return self.model_copy(
            update={
                "succeeded": outcome.succeeded,
                "result": outcome.result,
                "status_code": outcome.status_code,
                "error": outcome.error,
                "duration_ms": round(outcome.duration_ms, 3),
                "response_excerpt": outcome.response_excerpt,
            }
        )


class VerifiedView(BaseModel):
    """The topics that the receiver agreed to."""

    endpoint_id: str
    url: str = Field(description="The URL that was asked.")
    verification: Verification = Field(description="`none`: only the URL's address was checked.")
    topics: list[str] = Field(description="The patterns of its subscriptions.")


class LatencyView(BaseModel):
    """Durations of the attempts that got a response, in milliseconds."""

    p50: float = Field(description="Half of them were as fast or faster (the median).")
    p95: float = Field(description="95 % of them were as fast or faster.")
    p99: float = Field(description="99 % of them were as fast or faster.")
    max: float = Field(description="The slowest of them took so long.")

    @classmethod
    def of(cls, ascending: Sequence[float]) -> LatencyView | None:
        """Return percentiles by the nearest-rank method; None if there are no attempts."""
        if not ascending:
            return None
        ranks = {name: -(-len(ascending) * share // 100) for name, share in _SHARES.items()}
        return cls(**{name: round(ascending[rank - 1], 3) for name, rank in ranks.items()})


class DeliveryCounts(BaseModel):
    """Deliveries by their current status."""

    total: int = Field(description="All deliveries of the time window.")
    by_status: dict[DeliveryStatus, int] = Field(description="The same by their present status.")


class AttemptCounts(BaseModel):
    """Attempts by their result."""

    total: int = Field(description="All attempts of these deliveries.")
    by_result: dict[Result, int] = Field(description="The same by their result.")


class StatsView(BaseModel):
    """The deliveries of a time window, and their attempts so far."""

    endpoint_id: str
    since: Time = Field(description="Start of the counted time.")
    until: Time = Field(description="End of the counted time.")
    complete: bool = Field(
        description=f"False if there were more than {MAX_DELIVERIES:,} deliveries or "
        f"{MAX_ATTEMPTS:,} attempts, of which only the newest are counted; or if retention has "
        "deleted some of them, so that only whole days that are kept are counted. `since` is the "
        "start of the counted time."
    )
    deliveries: DeliveryCounts = Field(description="The deliveries created in that time.")
    success_rate: float | None = Field(
        description="Share of the ended deliveries (`delivered`, `dead`, `gone`) that were "
        "delivered; null while none has ended."
    )
    attempts: AttemptCounts = Field(description="The attempts of these deliveries.")
    latency_ms: LatencyView | None = Field(
        description="How fast the receiver responded; null if it never did."
    )


@routes.post("/endpoints/{endpoint_id}/test", summary="Test an endpoint")
async def check_endpoint(
    endpoint_id: EndpointPath,
    form: TestForm,
    request: Request,
    context: AppContext,
    principal: Writer,
) -> TestView:
    """Sends one sample event to the endpoint now, in any state, signed and encrypted like a
    delivery and under the same rules, and returns the result. With `dry_run`, it only returns the
    body. A mapping that fails for the event gets 422 `mapping_failed`. The request has the header
    `X-Hook-Test: true`. Nothing is stored, retried or counted, and circuit and limits are
    ignored. More than `HOOKFAST_TEST_SENDS_PER_MINUTE` for a tenant get 429
    `too_many_test_sends`."""
    data = None
    if "data" in form.model_fields_set:
        data = parse_object(await request.body())["data"].text  # with its exact numbers
    return await run_test(endpoint_id, form, context, principal, data=data)


async def run_test(
    endpoint_id: str,
    form: TestForm,
    context: Context,
    principal: Principal,
    *,
    data: str | None = None,
) -> TestView:
    """Test or preview. `data` is the exact JSON text of the form's data, None for a sample."""
    parse_event_type(form.type, pointer="/type")
    if not form.dry_run and (given := form.model_fields_set & {"data", "mapping"}):
        # a key that may test an endpoint must not get invented events signed
        raise InvalidInput.at(f"/{min(given)}", "is accepted only with `dry_run`")
    async with context.database.read() as connection:
        endpoint = owned(await endpoints.get(connection, endpoint_id), principal)
        if not form.dry_run:
            require_push(endpoint)
        event_type = await event_types.get(connection, form.type)
        if event_type is None:
            meant = await context.catalogue.suggest_types(connection, [form.type])
            raise unknown_type(meant.get(form.type))
        mapping = form.mapping or await _mapping(connection, endpoint, form)
    if form.mapping is not None:
        check_mapping(form.mapping, pointer="/mapping")
    now = context.clock()
    if data is None:
        data = sample_of(event_type.name, event_type.json_schema, now=now) or _SAMPLE
    body = full_body(
        event_id=new_id("evt", now),
        event_type=event_type.name,
        created_at=now,
        tenant_id=endpoint.tenant_id,
        data=data,
    )
    if mapping is not None:
        try:
            body = await asyncio.to_thread(mapped_body, mapping, body)
        except MappingFailed as error:
            raise InvalidInput.at("/mapping", error.reason, code="mapping_failed") from None
    view = TestView(
        endpoint_id=endpoint_id,
        message_id=new_id("dlv", now),
        type=event_type.name,
        dry_run=form.dry_run,
        payload="full" if mapping is None else "mapped",
        body=body.decode(),
    )
    if form.dry_run:
        return view
    loader = OutgoingLoader(context.database, context.keyring, clock=context.clock)
    target = await loader.load_endpoint(endpoint_id)
    context.receiver_checks.count(target.tenant_id)
    outcome = await _send_sample(context, target, event_type, view.message_id, body)
    return view.with_outcome(outcome)


@routes.post("/endpoints/{endpoint_id}/verify", summary="Verify an endpoint again")
async def verify_endpoint(
    endpoint_id: EndpointPath, context: AppContext, principal: Writer
) -> VerifiedView:
    """Asks the receiver again about every subscribed topic. If it does not agree, the response is
    422 `verification_failed`. Nothing is changed either way. Verifications share the limit of test
    sends."""
    async with context.database.read() as connection:
        endpoint = require_push(owned(await endpoints.get(connection, endpoint_id), principal))
        topics = await subscriptions.patterns_of_endpoint(connection, endpoint_id)
    await verify_stored(context, endpoint, topics)
    return VerifiedView(
        endpoint_id=endpoint_id,
        url=endpoint.url,
        verification=endpoint.verification,
        topics=topics or [EVERYTHING],
    )


@routes.get("/endpoints/{endpoint_id}/stats", summary="Get an endpoint's statistics")
async def get_endpoint_stats(
    endpoint_id: EndpointPath,
    context: AppContext,
    principal: Reader,
    since: Annotated[
        TimeInput | None, Query(description="Created at this time or later; default: a day ago.")
    ] = None,
    until: Annotated[
        TimeInput | None, Query(description="Created before this time; default: now.")
    ] = None,
) -> StatsView:
    """The results of its deliveries in a time window, and how fast it responds."""
    until = until or context.clock()
    since = since or max(until, _EARLIEST + _WINDOW) - _WINDOW
    if since >= until:
        raise InvalidInput.at("since", "must be before `until`")
    async with context.database.read() as connection:
        owned(await endpoints.get(connection, endpoint_id), principal)
        stats = await endpoint_stats.read(connection, endpoint_id, since=since, until=until)
    return StatsView(
        endpoint_id=endpoint_id,
        since=stats.since,
        until=until,
        complete=stats.complete,
        deliveries=DeliveryCounts(
            total=stats.deliveries.total(),
            by_status={status: stats.deliveries[status] for status in DeliveryStatus},
        ),
        success_rate=_success_rate(stats),
        attempts=AttemptCounts(
            total=stats.attempts.total(),
            by_result={result: stats.attempts[result] for result in Result},
        ),
        latency_ms=LatencyView.of(stats.answered_ms),
    )


async def _mapping(connection: AsyncConnection, endpoint: Endpoint, form: TestForm) -> str | None:
    """Return the mapping of the subscription that a test is for, or None if its payload is another.
    Raises NotFound for another endpoint's subscription."""
    if form.subscription_id is not None:
        subscription = found(await subscriptions.get(connection, form.subscription_id))
        if subscription.endpoint_id != endpoint.id:
            raise NotFound("The endpoint has no such subscription.")
        return subscription.mapping
    matching = await subscriptions.list_page(
        connection,
        tenant_id=endpoint.tenant_id,
        endpoint_id=endpoint.id,
        matches=form.type,
        example=None,
        after=None,
        limit=_MAX_MATCHES,
    )
    return matching[-1].mapping if matching else None


async def _send_sample(
    context: Context, target: CachedEndpoint, event_type: EventType, message_id: str, body: bytes
) -> Outcome:
    headers, sent = await outgoing_request(
        body,
        endpoint=target,
        message_id=message_id,
        event_type=event_type.name,
        attempt=1,
        timestamp=int(context.clock().timestamp()),
        traceparent=traceparent.new(),
    )
    return await context.sender.post(
        target.url,
        headers=headers | {TEST_HEADER: "true"},
        body=sent,
        timeout=target.timeout_seconds,
        access=target.access,
        allowed_networks=target.allowed_networks,
    )


def sample_of(name: str, schema: Any, *, now: datetime) -> str | None:
    """Return JSON text to use as data of a test event: an example of the schema, or a provider's
    sample; None if there is neither. Callers cannot choose the data: a key that may test an
    endpoint must not get invented events signed."""
    examples = schema.get("examples") if isinstance(schema, dict) else None
    if isinstance(examples, list) and examples:
        return json.dumps(examples[0], separators=(",", ":"))
    return sample_data(name, now=now)


def _success_rate(stats: EndpointStats) -> float | None:
    ended = sum(stats.deliveries[status] for status in _ENDED)
    return stats.deliveries[DeliveryStatus.DELIVERED] / ended if ended else None
