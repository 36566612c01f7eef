"""Where providers send: one address per source. The signature is the credential."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api.access.client_address import client_address
from api.http.openapi import problem_responses
from api.http.request_body import streamed_body
from api.process.context import AppContext, Context
from api.process.source_cache import OpenSource
from hookfast.errors import Forbidden, HookfastError, Unavailable
from hookfast.inbox import Answer, InboundRequest, RequestHeaders, RequestRejected
from hookfast.inbox.verified_request import VerifiedRequest, verify_and_parse
from hookfast.storage.inbox.inbox_batch import Arrival, Taken
from hookfast.telemetry import instruments, spans, traceparent

routes = APIRouter(tags=["Inbound"])

_THREAD_BYTES = 65_536
"""Verifying and parsing longer bodies moves to a thread: others should not wait for it."""


class InboundAnswer(BaseModel):
    """A request that is in the inbox."""

    id: str = Field(description="Of the entry in the inbox; of the first one for a duplicate.")
    event_id: str | None = Field(description="Null where it became no event.")
    event_type: str
    status: Literal["accepted", "suppressed", "failed"] = Field(
        description="`suppressed`: an event of the same business fact was emitted already. "
        "`failed`: its event type's schema refuses it; it is kept, to be tried again."
    )
    suppressed_by: str | None = Field(description="The entry that stands for the same fact.")
    duplicate: bool = Field(description="It came before, under the same key.")

    @classmethod
    def of(cls, taken: Taken) -> InboundAnswer:
        return cls(
            id=taken.id,
            event_id=taken.event_id,
            event_type=taken.event_type,
            status=taken.status,
            suppressed_by=taken.suppressed_by,
            duplicate=taken.duplicate,
        )


_DESCRIPTIONS = {
    400: "It is the provider's, and its body cannot be read.",
    401: "It is not proven to come from the provider, or not from now; `code` says why.",
    403: "The source takes requests from other networks only.",
    404: "There is no such source, or it is switched off.",
    408: "The body took too long to arrive.",
    413: "The body is larger than `HOOKFAST_MAX_INBOX_BYTES`.",
    415: "The provider sends no bodies of this type.",
    422: "The request is malformed.",
    503: "Too much at once, or the database is away; see `Retry-After`.",
}
_ENTRY_HEADER = "X-Hookfast-Inbox-Id"
_EVENT_HEADER = "X-Hookfast-Event-Id"


def _id_header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


_PROBLEM = next(iter(problem_responses(503).values()))
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": InboundAnswer | dict[str, Any],
        "description": "A duplicate; what the provider asked, such as Slack's challenge; or what "
        "it acts on, new or not: nothing for Slack's commands and interactivity, TwiML without "
        "instructions for Twilio's messages and calls.",
        "content": {"text/xml": {}},
        "headers": {
            _ENTRY_HEADER: _id_header("The entry in the inbox, where the body does not say it."),
            _EVENT_HEADER: _id_header("Its event, where it became one."),
        },
    },
    202: {"model": InboundAnswer, "description": "New, and committed with its event."},
    **{status: {**_PROBLEM, "description": text} for status, text in _DESCRIPTIONS.items()},
}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "What the provider signed, byte for byte.",
        "content": {"application/json": {}, "application/x-www-form-urlencoded": {}},
    }
}


@routes.post(
    "/in/{source_id}",
    summary="Receive a provider's webhook",
    response_class=JSONResponse,
    responses=_RESPONSES,
    openapi_extra=_BODY,
)
async def receive_webhook(source_id: str, request: Request, context: AppContext) -> Response:
    """Verified over its raw bytes, deduplicated, and committed together with its event and the
    event's deliveries before it is answered. No API key is needed."""
    source = await context.sources.find(source_id)
    with context.inbound_load.enter(source.id):
        try:
            source = await _admitting(client_address(request), source, context)
            received = await _received(request, source, context)
            source, reading = await _judged(source, received, context)
        except Unavailable:
            raise
        except HookfastError as error:
            context.refusals.count(source.id, error)
            instruments.INBOX.add(provider=source.provider.name, outcome="rejected")
            raise
        if isinstance(reading, Answer):
            instruments.INBOX.add(provider=source.provider.name, outcome="answered")
            return _said(reading)
        taken = await context.inbox.take(_arrival(source, received, reading))
    spans.note_event(taken.event_id)
    outcome = "duplicate" if taken.duplicate else taken.status
    instruments.INBOX.add(provider=source.provider.name, outcome=outcome)
    if reading.acknowledgement is not None:
        return _said(reading.acknowledgement, taken)
    return JSONResponse(
        InboundAnswer.of(taken).model_dump(), status_code=200 if taken.duplicate else 202
    )


def _said(answer: Answer, taken: Taken | None = None) -> Response:
    """What the provider wants to hear. It says nothing of what was taken: the headers do."""
    headers = {}
    if taken is not None:
        headers[_ENTRY_HEADER] = taken.id
        if taken.event_id is not None:
            headers[_EVENT_HEADER] = taken.event_id
    return Response(
        answer.body, status_code=answer.status, media_type=answer.content_type, headers=headers
    )


async def _admitting(caller: str | None, source: OpenSource, context: Context) -> OpenSource:
    """The source, as remembered or else as it is now, that takes requests from this address."""
    if source.admits(caller):
        return source
    newer = await context.sources.renewed(source)
    if newer is None or not newer.admits(caller):
        raise Forbidden(
            "This source takes no requests from this address.", code="caller_not_allowed"
        )
    return newer


async def _received(request: Request, source: OpenSource, context: Context) -> InboundRequest:
    """The request with its body, which is taken only once all else fits."""
    caller = client_address(request) or ""
    headers = RequestHeaders.from_raw(request.scope["headers"])
    url = _url(request, context)
    now = context.clock()
    early = InboundRequest(method="POST", url=url, headers=headers, body=b"", caller=caller, at=now)
    source.provider.check_content_type(early)
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
    """As the provider called it: Twilio signs it."""
    base = context.settings.public_url
    if base is None:
        base = f"{request.scope['scheme']}://{request.headers.get('host', '')}"
    path = request.scope.get("raw_path") or request.scope["path"].encode()
    query = request.scope["query_string"]
    tail: bytes = path + (b"?" + query if query else b"")
    return base.rstrip("/") + tail.decode("latin-1")


async def _judged(
    source: OpenSource, received: InboundRequest, context: Context
) -> tuple[OpenSource, Answer | VerifiedRequest]:
    """What the request says, and the source that believes it: as it is now, where the remembered
    one does not. Raises RequestRejected."""
    try:
        return source, await _read(source, received)
    except RequestRejected:
        newer = await context.sources.renewed(source)
        if newer is None:
            raise
    newer = await _admitting(received.caller or None, newer, context)
    return newer, await _read(newer, received)


async def _read(source: OpenSource, received: InboundRequest) -> Answer | VerifiedRequest:
    def reading() -> Answer | VerifiedRequest:
        return verify_and_parse(
            source.provider,
            received,
            rules=source.rules,
            secrets=source.secrets_at(received.at),
            now=received.at,
        )

    if len(received.body) > _THREAD_BYTES:
        return await asyncio.to_thread(reading)
    return reading()


def _arrival(source: OpenSource, received: InboundRequest, reading: VerifiedRequest) -> Arrival:
    return Arrival(
        source_id=source.id,
        tenant_id=source.tenant_id,
        provider=source.provider.name,
        key=reading.key,
        business_key=reading.business_key,
        business_window=source.rules.business_window,
        event_type=reading.event_type,
        sha256=reading.sha256,
        content_type=reading.content_type,
        headers=reading.headers,
        body=received.body,
        data=reading.data,
        value=reading.value,
        at=received.at,
        traceparent=spans.current() or traceparent.new(),
    )
