"""All spans, by OpenTelemetry's conventions for messaging and HTTP.

One event is one trace, with all its retries. The commit of the event is a span whose context is
stored with it; the start of each delivery and each attempt, perhaps days later, are short spans of
their own below it. No span is open while a delivery waits, and workflow code creates none, because
Temporal replays it.

Spans hold ids, times, numbers and the receiver's host: never a body, a header's value, a URL's path
or query (people put tokens there), or an error's text. Without tracing (`providers.start`) nothing
is recorded, and `traceparent` is passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
)

from hookfast.telemetry import traceparent as w3c
from hookfast.version import VERSION

_TRACER = trace.get_tracer("hookfast", VERSION)
_NOTHING = Context()


class _Switch:
    """Whether a TracerProvider is set up. Set once, at start."""

    on = False


def record() -> None:
    """Record spans from now on."""
    _Switch.on = True


def current() -> str | None:
    """Return the `traceparent` of the current span; None outside of any span."""
    context = trace.get_current_span().get_span_context()
    return _text(context) if context.is_valid else None


class EventSpan:
    """The producer span of one event's commit. Its `traceparent` is stored with the event."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, traceparent: str, span: Span | None = None) -> None:
        self._span = span
        self.traceparent = traceparent

    def committed(self, event_id: str, deliveries: int) -> None:
        """Add the event's id and its number of deliveries."""
        if self._span is not None:
            self._span.set_attribute("messaging.message.id", event_id)
            self._span.set_attribute("hookfast.deliveries", deliveries)


class Emission:
    """The producer spans of one request's events, which end together."""

    __slots__ = ("_parent", "_spans", "_traceparent")

    def __init__(self, traceparent: str) -> None:
        self._traceparent = traceparent
        self._parent = _remote(traceparent) if _Switch.on else None
        self._spans: list[Span] = []

    def begin(self, event_type: str, own: str | None = None) -> EventSpan:
        """Start the span of one event: a child of its `own` traceparent if it has one, otherwise of
        the request's."""
        if not _Switch.on:
            return EventSpan(own or self._traceparent)
        parent = self._parent if own is None else _remote(own)
        span = _TRACER.start_span(
            f"emit {event_type}",
            context=parent or _NOTHING,
            kind=SpanKind.PRODUCER,
            attributes=_messaging("emit", "create", event_type),
        )
        self._spans.append(span)
        return EventSpan(_text(span.get_span_context()), span)

    def end(self) -> None:
        for span in self._spans:
            span.end()


@contextmanager
def emission(traceparent: str) -> Iterator[Emission]:
    """Trace the commit of a request's events, as children of `traceparent`."""
    events = Emission(traceparent)
    try:
        yield events
    finally:
        events.end()


def note_event(event_id: str | None) -> None:
    """Add the id of the event created by the current request to the request's span."""
    if _Switch.on and event_id is not None:
        trace.get_current_span().set_attribute("messaging.message.id", event_id)


@contextmanager
def start_of_delivery(
    traceparent: str | None, *, event_type: str, since: datetime, ids: Mapping[str, str]
) -> Iterator[None]:
    """Trace the time from a delivery's commit to the start of its workflow."""
    parent = _remote(traceparent) if _Switch.on and traceparent is not None else None
    if parent is None:
        yield
        return
    with _current_span(
        f"start {event_type}",
        context=parent,
        kind=SpanKind.INTERNAL,
        attributes=_ids(ids),
        start_time=int(since.timestamp() * 1e9),
    ):
        yield


class AttemptSpan:
    """The span of one attempt, from its permission until it is recorded."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def ended(self, result: str, *, following: str | None) -> None:
        """Add the result, and what follows by the plan (None: not recorded yet)."""
        self._span.set_attribute("hookfast.attempt.result", result)
        if following is not None:
            self._span.set_attribute("hookfast.attempt.next", following)


_NOT_RECORDED = AttemptSpan(trace.INVALID_SPAN)


@contextmanager
def attempt(
    traceparent: str, *, event_type: str, number: int, trigger: str, ids: Mapping[str, str]
) -> Iterator[AttemptSpan]:
    """Trace an attempt in its event's trace. Later attempts also link to the event's commit, for
    backends that split a trace by time."""
    parent = _remote(traceparent)
    if not _Switch.on:
        # nothing is recorded, but the attempt's log lines have the event's trace id
        token = attach(parent or _NOTHING)
        try:
            yield _NOT_RECORDED
        finally:
            detach(token)
        return
    links = []
    if number > 1 and parent is not None:
        links = [Link(trace.get_current_span(parent).get_span_context())]
    with _current_span(
        f"attempt {event_type}",
        context=parent or _NOTHING,
        kind=SpanKind.CONSUMER,
        attributes={
            **_messaging("attempt", "process", event_type),
            **_ids(ids),
            "hookfast.attempt.number": number,
            "hookfast.attempt.trigger": trigger,
        },
        links=links,
    ) as span:
        yield AttemptSpan(span)


class RequestSpan:
    """The span of one HTTP request to a receiver, which is sent the `traceparent`."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: Span, traceparent: str) -> None:
        self._span = span
        self.traceparent = traceparent

    def answered(self, result: str, status_code: int | None, *, succeeded: bool) -> None:
        """Add the answer. `result` is the class of a failure (`dns`, `timeout`, …)."""
        if status_code is not None:
            self._span.set_attribute("http.response.status_code", status_code)
        if not succeeded:
            error = result if status_code is None else str(status_code)
            self._span.set_attribute("error.type", error)
            self._span.set_status(StatusCode.ERROR)


@contextmanager
def request(url: str, traceparent: str, *, resend_count: int) -> Iterator[RequestSpan]:
    """Trace the POST of an attempt as a child of the attempt's span. If nothing is recorded, it is
    a new context under `traceparent`, which the receiver can join."""
    if not _Switch.on:
        yield RequestSpan(trace.INVALID_SPAN, w3c.child(traceparent))
        return
    with _current_span(
        "POST",
        kind=SpanKind.CLIENT,
        attributes={"http.request.method": "POST", **_server(url), **_resent(resend_count)},
    ) as span:
        yield RequestSpan(span, _text(span.get_span_context()))


@contextmanager
def _current_span(
    name: str,
    *,
    kind: SpanKind,
    attributes: Mapping[str, str | int],
    context: Context | None = None,
    links: Sequence[Link] = (),
    start_time: int | None = None,
) -> Iterator[Span]:
    """Open a span while the block runs. It has only the type of an error, because the message may
    quote input."""
    with _TRACER.start_as_current_span(
        name,
        context=context,
        kind=kind,
        attributes=attributes,
        links=links,
        start_time=start_time,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(StatusCode.ERROR)
            raise


def _messaging(name: str, kind: str, event_type: str) -> dict[str, str]:
    return {
        "messaging.system": "hookfast",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": event_type,
    }


def _ids(ids: Mapping[str, str]) -> dict[str, str]:
    return {f"hookfast.{name}.id": value for name, value in ids.items()}


def _server(url: str) -> dict[str, str | int]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {
        "server.address": parts.hostname or "",
        "server.port": port,
        "url.scheme": parts.scheme,
    }


def _resent(count: int) -> dict[str, int]:
    return {"http.request.resend_count": count} if count else {}


def _text(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _remote(traceparent: str) -> Context | None:
    """Return the context of a remote span; None if `traceparent` is not valid."""
    if w3c.parse(traceparent) is None:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    context = SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
    return trace.set_span_in_context(NonRecordingSpan(context), _NOTHING)
