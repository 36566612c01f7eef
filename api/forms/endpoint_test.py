"""Forms and views of tests: the event to send, and the request with its answer."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, Field

from api.http.fields import Input, SubscriptionId, Time, example
from hookfast.deliveries.evidence import header_pairs
from hookfast.deliveries.outcome import ERROR_TEXT, Outcome, Result
from hookfast.events.event_type import MAX_LENGTH
from hookfast.resources.subscription import MappingText
from hookfast.storage.tables import SentTest

_PAYLOAD: Final = (
    "Whether the body is the event's (`full`) or what the subscription's mapping makes of it."
)
_HEADERS: Final = "signatures, credentials and the endpoint's own headers are masked"


class TestForm(Input):
    """The event to send as a test, or to preview."""

    model_config = example(type="order.invoice.paid", data={"invoice_id": "in_8Tx2", "amount": 5})

    type: str = Field(
        max_length=MAX_LENGTH,
        description="A registered event type.",
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
        None,
        description="The event's data, any JSON value, which is sent byte for byte. Unless it is a "
        "dry run, it must match the event type's schema. Default: the sample of the event type, "
        "see `GET /v1/event-types/{name}/sample`.",
    )
    mapping: MappingText | None = Field(
        None, description="Only with `dry_run`: a mapping to try, instead of the subscription's."
    )


class TestView(BaseModel):
    """One test and its answer. In a dry run, the members of the request's headers and of the answer
    are null."""

    endpoint_id: str
    message_id: str = Field(
        description="Its `X-Hook-Id` and `webhook-id`, and the id of the kept test. There is no "
        "delivery with this id."
    )
    type: str = Field(description="The event type of the test.")
    dry_run: bool = Field(description="Whether nothing was sent.")
    kept: bool = Field(
        description="Whether `GET /v1/tests/{message_id}` has it. False for a dry run, and if it "
        "was sent but could not be stored."
    )
    payload: Literal["full", "mapped"] = Field(description=_PAYLOAD)
    method: Literal["POST"] = Field("POST", description="The request's method: always `POST`.")
    url: str = Field(description="Where the request was sent.")
    body: str = Field(description="The body, before any encryption.")
    request_headers: list[tuple[str, str]] | None = Field(
        None,
        description=f"The headers as sent, as pairs; {_HEADERS}. Null if nothing was sent.",
    )
    started_at: Time | None = Field(None, description="When the request began.")
    succeeded: bool | None = Field(None, description="Whether the receiver answered 2xx.")
    result: Result | None = None
    status_code: int | None = None
    error: str | None = Field(None, description=ERROR_TEXT)
    duration_ms: float | None = None
    response_headers: list[tuple[str, str]] | None = Field(
        None,
        description="The headers of the answer, as pairs; cookies are masked. Null without a "
        "complete answer.",
    )
    response_excerpt: str | None = Field(None, description="The start of the response's body.")

    def with_outcome(self, outcome: Outcome, *, started_at: datetime, kept: bool) -> TestView:
        """Return the view with the result of the request."""
        evidence = outcome.evidence
        sent = None if evidence is None else evidence.request_headers
        received = None if evidence is None else evidence.response_headers
        return self.model_copy(
            update={
                "kept": kept,
                "request_headers": header_pairs(sent),
                "started_at": started_at,
                "succeeded": outcome.succeeded,
                "result": outcome.result,
                "status_code": outcome.status_code,
                "error": outcome.error,
                "duration_ms": round(outcome.duration_ms, 3),
                "response_headers": header_pairs(received),
                "response_excerpt": outcome.response_excerpt,
            }
        )


class ListedTest(BaseModel):
    """A test that was sent, as lists show it."""

    id: str = Field(description="The message id that the receiver saw.")
    tenant_id: str
    endpoint_id: str
    event_type: str
    payload: Literal["full", "mapped"] = Field(description=_PAYLOAD)
    started_at: Time = Field(description="When the request began.")
    duration_ms: float
    result: Result
    status_code: int | None = Field(description="Null if there was no complete answer.")
    error: str | None = Field(description=ERROR_TEXT)


class KeptTest(ListedTest):
    """A test that was sent, with the whole request and the answer."""

    method: Literal["POST"] = Field("POST", description="The request's method: always `POST`.")
    url: str = Field(description="Where the request was sent.")
    request_headers: list[tuple[str, str]] | None = Field(
        description=f"The headers as sent, as pairs; {_HEADERS}. Null if nothing was sent."
    )
    request_body: str = Field(description="The body, before any encryption.")
    response_headers: list[tuple[str, str]] | None = Field(
        description="The headers of the answer, as pairs; cookies are masked. Null without a "
        "complete answer."
    )
    response_excerpt: str | None = Field(description="The start of the answer's body, as text.")

    @classmethod
    def not_kept(cls, test: TestView, *, tenant_id: str) -> Self:
        """Return the view of a test that was sent just now and could not be stored."""
        return cls(
            **test.model_dump(),
            id=test.message_id,
            tenant_id=tenant_id,
            event_type=test.type,
            request_body=test.body,
        )

    @classmethod
    def of(cls, test: SentTest) -> Self:
        headers = {
            "request_headers": header_pairs(test.request_headers),
            "response_headers": header_pairs(test.response_headers),
        }
        return cls(**test.model_dump() | headers)
