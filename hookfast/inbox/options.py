"""Types of options that several providers share."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from hookfast.errors import InvalidInput
from hookfast.events.event_type import is_event_type
from hookfast.events.operational import RESERVED_NAMESPACE, is_reserved
from hookfast.inbox.expression import compile_expression
from hookfast.inbox.media_type import MEDIA_TYPE
from hookfast.inbox.naming import MAX_NAMESPACE


def _namespace(text: str) -> str:
    if text == RESERVED_NAMESPACE:
        raise ValueError(f"the namespace {text!r} is reserved for Hookfast; choose another")
    return text


def _expression(text: str) -> str:
    try:
        compile_expression(text, pointer="")
    except InvalidInput as error:
        raise ValueError(error.message) from None
    return text


def _event_type(text: str) -> str:
    if not is_event_type(text) or is_reserved(text):
        raise ValueError(
            "this is not an event type that a source may emit; use e.g. 'acme.order.created'"
        )
    return text


def _media_type(text: str) -> str:
    lowered = text.lower()
    if not re.fullmatch(MEDIA_TYPE, lowered):
        raise ValueError("give a media type without parameters, e.g. text/plain")
    return lowered


def _public_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable or not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError(
            "give the complete URL as configured at the provider, e.g. https://…/in/src_…"
        )
    return text


Namespace: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=MAX_NAMESPACE),
    AfterValidator(_namespace),
    Field(description="The first part of the event types."),
]
Tolerance: TypeAlias = Annotated[
    int,
    Field(ge=1, le=3600, description="Seconds that the signed time may differ from now."),
]
HeaderName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$"),  # RFC 9110, 5.6.2
]
ContentTypes: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(_media_type)], ...],
    Field(
        max_length=10,
        description="Media types to accept besides the provider's own, e.g. `text/plain`, without "
        "parameters. A body of theirs that is JSON is read as JSON.",
    ),
]
ExpressionText: TypeAlias = Annotated[str, AfterValidator(_expression)]
FixedType: TypeAlias = Annotated[str, AfterValidator(_event_type)]
PublicUrl: TypeAlias = Annotated[
    str, StringConstraints(max_length=2000), AfterValidator(_public_url)
]
