"""Receiving webhooks from providers: one address per source, authenticated by the signature."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api.access.client_address import client_address
from api.answers.problem_responses import problem_response, problem_responses
from api.answers.request_id import request_id
from api.context.context import AppContext, Context
from api.context.source_cache import OpenSource
from api.http.request_body import streamed_body
from hookfast.errors import Forbidden, HookfastError, Unavailable
from hookfast.events.hops import MAX_HOPS
from hookfast.inbox import Answer, InboundRequest, RequestHeaders, RequestRejected, TooManyHops
from hookfast.inbox.verified_request import VerifiedRequest, verify_and_parse
from hookfast.logs.kind import Kind
from hookfast.storage.inbox.inbox_batch import Arrival, InboxResult
from hookfast.telemetry import instruments, spans, traceparent

log = structlog.get_logger()
routes = APIRouter(tags=["Inbound"])

_THREAD_BYTES = 65_536
"""Longer bodies are verified and parsed in a thread, so that other requests need not wait."""


class InboundAnswer(BaseModel):
    """A request that is stored in the inbox."""

    id: str = Field(description="Id of the inbox entry; for a duplicate, of the first entry.")
    event_id: str | None = Field(description="Null if no event was emitted.")
    event_type: str = Field(description="The event type, after the source's renames.")
    status: Literal["accepted", "suppressed", "failed"] = Field(
        description="`suppressed`: an event of the same business fact was emitted already. "
        "`failed`: it does not match its event type's schema; it is kept and can be retried, and "
        "only subscriptions with payload `raw` get it until then."
    )
    suppressed_by: str | None = Field(description="The earlier entry of the same business fact.")
    duplicate: bool = Field(description="It was received before, with the same key.")

    @classmethod
    def of(cls, result: InboxResult) -> InboundAnswer:
        return cls.model_validate(result, from_attributes=True)


_DESCRIPTIONS: Mapping[int | str, str] = {
    400: "The request's head is malformed or ambiguous.",
    403: "The source accepts requests only from other networks.",
    404: "There is no such source, or it is inactive.",
    408: "The body took too long to arrive.",
    413: "The body is larger than `HOOKFAST_MAX_INBOX_BYTES`.",
    415: "The signature is right, but the source takes no bodies of this type.",
    422: "The signature is right, but a header that may occur once is repeated.",
    429: "The tenant's quota of events per day is used up. Nothing was stored: send the request "
    "again after midnight UTC, see `Retry-After`.",
    503: "Too many requests, or the database is away; see `Retry-After`.",
}
_ENTRY_HEADER = "X-Hookfast-Inbox-Id"
_EVENT_HEADER = "X-Hookfast-Event-Id"


def _id_header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": InboundAnswer | dict[str, Any],
        "description": "A duplicate, or the response that the provider expects: Slack's challenge, "
        "an empty body for Slack's commands and interactivity, TwiML without instructions for "
        "Twilio's messages and calls.",
        "content": {"text/xml": {}},
        "headers": {
            _ENTRY_HEADER: _id_header("The inbox entry, if the body does not contain its id."),
            _EVENT_HEADER: _id_header("The event, if one was emitted."),
        },
    },
    202: {
        "model": InboundAnswer,
        "description": "New, and committed, with its event unless `status` says otherwise.",
    },
    401: problem_response(
        "The signature is missing, wrong or too old; `code` says which.",
        RequestRejected("signature_missing", "The request has no header X-Hub-Signature-256."),
    ),
    508: problem_response(
        "The event has passed too many sources: it goes round in a loop. Do not send it again.",
        TooManyHops(MAX_HOPS + 1),
    ),
    **{
        status: response | {"description": _DESCRIPTIONS[status]}
        for status, response in problem_responses(*map(int, _DESCRIPTIONS)).items()
    },
}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The bytes that the provider signed.",
        "content": {
            "application/json": {
                "example": {"ref": "refs/heads/main", "repository": {"full_name": "acme/shop"}}
            },
            "application/x-www-form-urlencoded": {},
        },
    }
}


@routes.post(
    "/in/{source_id}",
    summary="Receive a provider's webhook",
    response_class=JSONResponse,
    responses=_RESPONSES,
    openapi_extra=_BODY,
)
async def receive_webhook(
    source_id: Annotated[str, Path(description="Id of the source, `src_…`.")],
    request: Request,
    context: AppContext,
) -> Response:
    """Verifies the request over its raw bytes, deduplicates it, and commits it together with its
    event and the event's deliveries before it responds. No API key is needed."""
    source = await context.sources.find(source_id)
    try:
        source = await _admitted(client_address(request), source, context)
        received = await _with_body(request, context)
        # only now: requests whose bodies do not arrive must not keep others out
        with context.inbound_slots.enter(source.id) as entered:
            if not entered:
                raise Unavailable(
                    "Too many requests are in progress. Nothing was stored; send it again.",
                    code="overloaded",
                    retry_after=1,
                )
            source, verified = await _verified(source, received, context)
            if isinstance(verified, Answer):
                _report(source, "answered")
                return _provider_response(verified)
            arrival = _arrival(source, received, verified, request_id=request_id(request))
            result = await context.inbox.store(arrival)
    except Unavailable:
        raise
    except HookfastError as error:
        if isinstance(error, TooManyHops):
            await context.loop_reports.add(source.id, tenant_id=source.tenant_id, hops=error.hops)
        context.rejections.count(source.id, error)
        _report(source, "rejected", code=error.code)
        raise
    spans.note_event(result.event_id)
    stored = {"inbox_id": result.id, "event_type": result.event_type}
    if result.event_id is not None:
        stored["event_id"] = result.event_id
    _report(source, "duplicate" if result.duplicate else result.status, **stored)
    if verified.acknowledgement is not None:
        return _provider_response(verified.acknowledgement, result)
    return JSONResponse(
        InboundAnswer.of(result).model_dump(), status_code=200 if result.duplicate else 202
    )


def _report(source: OpenSource, outcome: str, **fields: str) -> None:
    """Count and log how a request to a source ended."""
    provider = source.provider.name
    instruments.INBOX.add(provider=provider, outcome=outcome)
    log.info(
        "A source's request was answered.",
        kind=Kind.INBOUND,
        source_id=source.id,
        tenant_id=source.tenant_id,
        provider=provider,
        outcome=outcome,
        **fields,
    )


def _provider_response(answer: Answer, result: InboxResult | None = None) -> Response:
    """Return the response that the provider expects, with the ids of the entry and event in
    headers."""
    headers = {}
    if result is not None:
        headers[_ENTRY_HEADER] = result.id
        if result.event_id is not None:
            headers[_EVENT_HEADER] = result.event_id
    return Response(
        answer.body, status_code=answer.status, media_type=answer.content_type, headers=headers
    )


async def _admitted(caller: str | None, source: OpenSource, context: Context) -> OpenSource:
    """Return the source, as cached or else as read again, if it accepts requests from this
    address. Raises Forbidden."""
    if source.admits(caller):
        return source
    newer = await context.sources.reread(source)
    if newer is None or not newer.admits(caller):
        raise Forbidden(
            "This source accepts no requests from this address.", code="caller_not_allowed"
        )
    return newer


async def _with_body(request: Request, context: Context) -> InboundRequest:
    """Return the request with its body, which is read only after the other checks passed."""
    caller = client_address(request) or ""
    headers = RequestHeaders.from_raw(request.scope["headers"])
    url = _url(request, context)
    body = await streamed_body(request).read()
    return InboundRequest(
        method="POST",
        url=url,
        headers=headers,
        body=body,
        caller=caller,
        at=context.clock(),
    )


def _url(request: Request, context: Context) -> str:
    """Return the URL as the provider requested it, because Twilio signs it."""
    base = context.settings.public_url
    if base is None:
        base = f"{request.scope['scheme']}://{request.headers.get('host', '')}"
    path = request.scope.get("raw_path") or request.scope["path"].encode()
    query = request.scope["query_string"]
    tail: bytes = path + (b"?" + query if query else b"")
    return base.rstrip("/") + tail.decode("latin-1")


async def _verified(
    source: OpenSource, received: InboundRequest, context: Context
) -> tuple[OpenSource, Answer | VerifiedRequest]:
    """Verify and parse the request, and return the source that did so: as cached, or as read again
    if the cached one rejects it. Raises RequestRejected."""
    try:
        return source, await _verify(source, received)
    except RequestRejected:
        newer = await context.sources.reread(source)
        if newer is None:
            raise
    newer = await _admitted(received.caller or None, newer, context)
    return newer, await _verify(newer, received)


async def _verify(source: OpenSource, received: InboundRequest) -> Answer | VerifiedRequest:
    def verify() -> Answer | VerifiedRequest:
        return verify_and_parse(
            source.provider,
            received,
            rules=source.rules,
            secrets=source.secrets_at(received.at),
            now=received.at,
        )

    if len(received.body) > _THREAD_BYTES:
        return await asyncio.to_thread(verify)
    return verify()


def _arrival(
    source: OpenSource,
    received: InboundRequest,
    verified: VerifiedRequest,
    *,
    request_id: str | None,
) -> Arrival:
    return Arrival(
        source_id=source.id,
        tenant_id=source.tenant_id,
        provider=source.provider.name,
        key=verified.key,
        any_body=verified.any_body,
        business_key=verified.business_key,
        business_window=source.rules.business_window,
        event_type=verified.event_type,
        sha256=verified.sha256,
        content_type=verified.content_type,
        headers=verified.headers,
        body=received.body,
        data=verified.data,
        value=verified.value,
        hops=verified.hops,
        at=received.at,
        traceparent=spans.current() or traceparent.new(),
        request_id=request_id,
    )
