"""Types of fields and parameters that many resources share, with their limits."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Annotated, Any

from fastapi import Path, Query, params
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from hookfast.clock import parse_rfc3339, rfc3339
from hookfast.deliveries.answer import ANSWERS
from hookfast.errors import NotFound
from hookfast.ids import Prefix, id_pattern, is_id
from hookfast.resources.fields import Description as Description
from hookfast.resources.fields import Input as Input
from hookfast.resources.fields import Metadata as Metadata
from hookfast.resources.fields import Name as Name

_BLANK_OFFSET = re.compile(r".*\d \d\d:\d\d")  # what an unencoded + in a query becomes
_DIGITS = re.compile(r"-?[0-9]{1,20}")


def example(**members: Any) -> ConfigDict:
    """Return the `model_config` of a request body with this example."""
    return ConfigDict(json_schema_extra={"examples": [members]})


# -- ids in paths: a malformed id cannot exist (404)


def _path(prefix: Prefix, what: str) -> params.Path:
    parameter: params.Path = Path(
        description=f"Id of the {what}.", json_schema_extra={"pattern": id_pattern(prefix)}
    )
    return parameter


def _well_formed(prefix: Prefix, what: str) -> AfterValidator:
    def check(text: str) -> str:
        if not is_id(prefix, text):
            raise NotFound(f"There is no such {what}.")
        return text

    return AfterValidator(check)


TenantPath = Annotated[str, _path("tnt", "tenant"), _well_formed("tnt", "tenant")]
ApiKeyPath = Annotated[str, _path("key", "API key"), _well_formed("key", "API key")]
EndpointPath = Annotated[str, _path("ep", "endpoint"), _well_formed("ep", "endpoint")]
SubscriptionPath = Annotated[str, _path("sub", "subscription"), _well_formed("sub", "subscription")]
EventPath = Annotated[str, _path("evt", "event"), _well_formed("evt", "event")]
DeliveryPath = Annotated[str, _path("dlv", "delivery"), _well_formed("dlv", "delivery")]
TestPath = Annotated[str, _path("dlv", "test"), _well_formed("dlv", "test")]
SourcePath = Annotated[str, _path("src", "source"), _well_formed("src", "source")]
InboxPath = Annotated[str, _path("inb", "inbox entry"), _well_formed("inb", "inbox entry")]
JobPath = Annotated[str, _path("job", "job"), _well_formed("job", "job")]


# -- ids in bodies and query parameters: a malformed id is invalid input (422)

TenantId = Annotated[str, Field(pattern=id_pattern("tnt"), description="Id of a tenant.")]
EndpointId = Annotated[str, Field(pattern=id_pattern("ep"), description="Id of an endpoint.")]
SubscriptionId = Annotated[
    str, Field(pattern=id_pattern("sub"), description="Id of a subscription.")
]
EventId = Annotated[str, Field(pattern=id_pattern("evt"), description="Id of an event.")]
SourceId = Annotated[str, Field(pattern=id_pattern("src"), description="Id of a source.")]
DeliveryId = Annotated[str, Field(pattern=id_pattern("dlv"), description="Id of a delivery.")]


# -- times


def _aware(value: object) -> datetime:
    if isinstance(value, str) and _BLANK_OFFSET.fullmatch(value):
        raise ValueError("the offset has a blank for its sign; in a URL, write + as %2B")
    return parse_rfc3339(value if isinstance(value, str) else "")


_TIME_SCHEMA = WithJsonSchema({"type": "string", "format": "date-time"})

TimeInput = Annotated[datetime, BeforeValidator(_aware), _TIME_SCHEMA]
"""A time in a body or a query parameter: RFC 3339 with an offset."""
Time = Annotated[datetime, PlainSerializer(rfc3339), _TIME_SCHEMA]
"""A time in a response: RFC 3339 in UTC, with microseconds."""
Day = Annotated[
    date,
    PlainSerializer(date.isoformat),
    WithJsonSchema({"type": "string", "format": "date"}),
]
"""A day in a response."""


def _digits(value: object) -> object:
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise ValueError("must be a whole number, in digits")
    return value


WholeNumber = Annotated[int, BeforeValidator(_digits)]
"""A whole number in a query parameter. Python alone would also read `1_0`, ` 10` and `+10`."""

# -- filters: parameters of lists, and members of requests that select many objects

TenantFilter = Annotated[
    TenantId | None,
    Field(description="Only what belongs to this tenant; a tenant's key implies its own."),
]
EndpointFilter = Annotated[EndpointId | None, Field(description="Only those of this endpoint.")]
SubscriptionFilter = Annotated[
    SubscriptionId | None, Field(description="Only those of this subscription.")
]
EventFilter = Annotated[EventId | None, Field(description="Only those of this event.")]
SourceFilter = Annotated[SourceId | None, Field(description="Only those of this source.")]
EventTypeFilter = Annotated[
    str | None,
    Field(
        max_length=200,
        description="Only those of exactly this event type.",
        examples=["order.invoice.paid"],
    ),
]
Since = Annotated[TimeInput | None, Query(description="Created at this time or later.")]
Until = Annotated[TimeInput | None, Query(description="Created before this time.")]


# -- text


AnswerQuery = Annotated[
    str | None, Query(max_length=20, description=ANSWERS, examples=["503", "5xx", "timeout"])
]
