"""Tests of an endpoint: one event that is sent at once, and kept with its answer for a few days.

A test is not an event of the platform: it is never retried, and no count, feed, circuit or quota
includes it. Only `sent_tests` has it.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Final

import structlog
from fastapi import Query, Request
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal, Reader, Writer
from api.access.ownership import found, owned
from api.context.context import AppContext, Context
from api.forms.endpoint import require_push
from api.forms.endpoint_test import KeptTest, ListedTest, TestForm, TestView
from api.forms.sample import sample_of
from api.http.fields import (
    AnswerQuery,
    EndpointFilter,
    EndpointPath,
    EventTypeFilter,
    TenantFilter,
    TestPath,
    TimeInput,
)
from api.http.pagination import Listing, PageQuery
from api.http.routing import router
from hookfast.deliveries.answer import parse_answer
from hookfast.deliveries.mapping import MappingFailed, check_mapping, mapped_body
from hookfast.deliveries.outcome import Outcome
from hookfast.dispatch.request import outgoing_request
from hookfast.errors import InvalidInput, NotFound, Unavailable
from hookfast.events.catalogue import unknown_type
from hookfast.events.envelope import full_body
from hookfast.events.event_type import parse_event_type
from hookfast.ids import new_id
from hookfast.sender.failure import not_made
from hookfast.storage.deliveries import sent_tests
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.sent_tests import KEPT, KEPT_PER_ENDPOINT, SentTestFilter
from hookfast.storage.endpoints import endpoints, subscriptions
from hookfast.storage.events import event_types
from hookfast.storage.tables import Endpoint, SentTest
from hookfast.strict_json.parser import ParsedJson, parse_object
from hookfast.telemetry import traceparent

routes = router("Endpoint checks")

TEST_HEADER: Final = "X-Hook-Test"
_MAX_MATCHES: Final = 200
_KEPT = (
    f"Tests are kept for {KEPT.days} days, at most the newest {KEPT_PER_ENDPOINT} of each endpoint."
)

log = structlog.get_logger()


@routes.post("/endpoints/{endpoint_id}/test", summary="Test an endpoint")
async def check_endpoint(
    endpoint_id: EndpointPath,
    form: TestForm,
    request: Request,
    context: AppContext,
    principal: Writer,
) -> TestView:
    """Sends one event to the endpoint now, in any state, signed and encrypted like a delivery and
    under the same rules, and returns the request and the answer. With `dry_run`, it only returns
    the body. A mapping that fails for the event gets 422 `mapping_failed`, and data that does not
    match the schema of its event type 422 `schema_violation`. The request has the header
    `X-Hook-Test: true`. Nothing is retried or counted, and circuit and limits are ignored. More
    than `HOOKFAST_TEST_SENDS_PER_MINUTE` for a tenant get 429 `too_many_test_sends`."""
    data = None
    if "data" in form.model_fields_set:
        data = parse_object(await request.body())["data"]  # with its exact numbers
    return await run_test(endpoint_id, form, context, principal, data=data)


async def run_test(
    endpoint_id: str,
    form: TestForm,
    context: Context,
    principal: Principal,
    *,
    data: ParsedJson | None = None,
) -> TestView:
    """Test or preview. `data` is the form's data with its exact text, None for a sample."""
    parse_event_type(form.type, pointer="/type")
    if not form.dry_run and "mapping" in form.model_fields_set:
        raise InvalidInput.at("/mapping", "is accepted only with `dry_run`")
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
    if data is not None and not form.dry_run:
        await context.emitter.check(event_type.name, data)
    now = context.clock()
    if data is None:
        text = sample_of(event_type.name, event_type.json_schema, now=now).data
    else:
        text = data.text
    body = full_body(
        event_id=new_id("evt", now),
        event_type=event_type.name,
        created_at=now,
        tenant_id=endpoint.tenant_id,
        data=text,
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
        kept=False,
        payload="full" if mapping is None else "mapped",
        url=endpoint.url,
        body=body.decode(),
    )
    if form.dry_run:
        return view
    context.receiver_checks.count(endpoint.tenant_id)
    started_at = context.clock()
    outcome = await _send(context, view, body)
    if outcome.evidence is not None:  # the URL may have changed in between
        view = view.model_copy(update={"url": outcome.evidence.url})
    kept = await _keep(context, endpoint.tenant_id, view, outcome, started_at=started_at)
    return view.with_outcome(outcome, started_at=started_at, kept=kept)


@routes.get(
    "/tests",
    summary="List tests",
    description=f"The tests that were sent to endpoints, newest first. {_KEPT} Deliveries do not "
    "include them.",
)
async def list_tests(
    page: PageQuery,
    context: AppContext,
    principal: Reader,
    endpoint_id: EndpointFilter = None,
    event_type: EventTypeFilter = None,
    answer: AnswerQuery = None,
    succeeded: Annotated[
        bool | None, Query(description="Only tests that the receiver accepted, or only others.")
    ] = None,
    tenant_id: TenantFilter = None,
    since: Annotated[TimeInput | None, Query(description="Sent at this time or later.")] = None,
    until: Annotated[TimeInput | None, Query(description="Sent before this time.")] = None,
) -> Listing[ListedTest]:
    chosen = SentTestFilter(
        endpoint_id=principal.endpoint_for(endpoint_id),
        tenant_id=principal.tenant_for(tenant_id),
        event_type=None
        if event_type is None
        else parse_event_type(event_type, pointer="event_type"),
        answer=None if answer is None else parse_answer(answer, pointer="answer"),
        succeeded=succeeded,
        since=since,
        until=until,
    )
    async with context.database.read() as connection:
        rows = await sent_tests.list_page(connection, chosen, after=page.after, limit=page.rows)
    return page.listing(rows, lambda test: ListedTest.model_validate(test, from_attributes=True))


@routes.get(
    "/tests/{test_id}",
    summary="Get a test",
    description=f"A test that was sent, with the whole request and the answer. {_KEPT}",
)
async def get_test(test_id: TestPath, context: AppContext, principal: Reader) -> KeptTest:
    async with context.database.read() as connection:
        test = owned(await sent_tests.get(connection, test_id), principal)
    principal.endpoint_for(test.endpoint_id)
    return KeptTest.of(test)


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


async def _send(context: Context, view: TestView, body: bytes) -> Outcome:
    """Make the request. An error while it is prepared is the test's result."""
    loader = OutgoingLoader(context.database, context.keyring, clock=context.clock)
    try:
        target = await loader.load_endpoint(view.endpoint_id)
        headers, sent = await outgoing_request(
            body,
            endpoint=target,
            message_id=view.message_id,
            event_type=view.type,
            attempt=1,
            timestamp=int(context.clock().timestamp()),
            traceparent=traceparent.new(),
        )
    except (NotFound, SQLAlchemyError):
        raise
    except Exception as error:
        return not_made(error)
    return await context.sender.post(
        target.url,
        headers=headers | {TEST_HEADER: "true"},
        body=sent,
        timeout=target.timeout_seconds,
        access=target.access,
        allowed_networks=target.allowed_networks,
        public_headers=(TEST_HEADER.lower(),),
    )


async def _keep(
    context: Context,
    tenant_id: str,
    view: TestView,
    outcome: Outcome,
    *,
    started_at: datetime,
) -> bool:
    """Store the test, and return whether it is stored: not if its endpoint was deleted meanwhile,
    or if the database is away. The request was made, so its result is returned in any case."""
    evidence = outcome.evidence
    test = SentTest(
        id=view.message_id,
        tenant_id=tenant_id,
        endpoint_id=view.endpoint_id,
        event_type=view.type,
        payload=view.payload,
        url=view.url,
        started_at=started_at,
        duration_ms=round(outcome.duration_ms, 3),
        result=outcome.result.value,
        status_code=outcome.status_code,
        error=outcome.error,
        request_headers=None if evidence is None else evidence.request_headers,
        request_body=view.body,
        response_headers=None if evidence is None else evidence.response_headers,
        response_excerpt=outcome.response_excerpt,
    )
    try:
        async with context.database.write() as connection:
            if await endpoints.get(connection, view.endpoint_id, lock=True) is None:
                return False
            await sent_tests.add(connection, test)
    except (Unavailable, SQLAlchemyError) as error:
        log.warning(
            "A test was sent but could not be stored.",
            endpoint_id=view.endpoint_id,
            error=type(error).__name__,
        )
        return False
    return True
