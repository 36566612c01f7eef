"""What a provider is: how its requests are verified, told apart and named.

A provider is one class in `hookfast/inbox/providers/`; its fields are the options a source of it
may have, so an instance is a source's provider with the options bound. All of it is pure.

The order in which the HTTP side uses one: `check_content_type`, `verify`, and only then anything
else, for nothing of a request is believed before. Then `payload`, `answer`, `delivery_id`,
`event_type`, `acknowledgement`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from hookfast.errors import FieldError, InvalidInput
from hookfast.events.event_type import matches
from hookfast.inbox.form import JSON
from hookfast.inbox.received import Received
from hookfast.inbox.refused import UnsupportedContentType
from hookfast.strict_json.parser import JsonValue, parse

MIN_SECRET_LENGTH = 16
MAX_SECRET_LENGTH = 1024
"""Characters of a secret at the creation of a source."""
MAX_ID_LENGTH = 200
"""Characters of a delivery id; a longer one is none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider wants to hear. Without a content type the body is empty."""

    status: int
    content_type: str | None = None
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsigned:
    """A request that a provider is to sign."""

    body: bytes
    content_type: str
    url: str
    id: str
    """Something new, for schemes that sign an id."""
    at: datetime

    @property
    def timestamp(self) -> int:
        """Unix seconds."""
        return int(self.at.timestamp())


class Provider(BaseModel):
    """The base of every provider. Options nobody knows are refused. A provider that leaves out an
    abstract method cannot be made."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: ClassVar[str]
    """What a source calls it: the name of its module."""
    content_types: ClassVar[frozenset[str]] = frozenset({JSON})
    lets_choose_secret: ClassVar[bool] = False
    """Whether the secret is one's own to make up: then Hookfast can."""
    suggested_keys: ClassVar[Mapping[str, str]] = {}
    """Event type patterns and the key expression that names the business fact of such an event."""
    id_headers: ClassVar[frozenset[str]] = frozenset()
    """Headers that hold the delivery's id here, and something else elsewhere."""

    def check_secret(self, secret: str, *, pointer: str) -> None:
        """Raise InvalidInput (`invalid_secret`), without the secret, for one that cannot be the
        provider's."""
        if secret != secret.strip() or not secret.isprintable():
            raise invalid_secret(
                pointer, "a secret has no white space around it and no control characters"
            )
        if not MIN_SECRET_LENGTH <= len(secret) <= MAX_SECRET_LENGTH:
            raise invalid_secret(
                pointer,
                f"a secret of {self.name} has {MIN_SECRET_LENGTH} to {MAX_SECRET_LENGTH} "
                "characters; make a long random one",
            )
        try:
            secret.encode()
        except UnicodeEncodeError:
            raise invalid_secret(pointer, "a secret is text that UTF-8 can write") from None

    def check_content_type(self, received: Received) -> None:
        """Raise UnsupportedContentType unless the body is of a type this provider sends."""
        if received.content_type not in self.content_types:
            raise UnsupportedContentType(
                f"{self.name} sends {' or '.join(sorted(self.content_types))}"
            )

    @abstractmethod
    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        """Raise Refused unless the provider signed exactly this request with one of `secrets`
        (current first, then the previous one)."""

    def payload(self, received: Received) -> JsonValue:
        """The body as a value. Raises InvalidInput when it is not what its content type says."""
        return parse(received.body)

    def answer(self, received: Received, payload: JsonValue) -> Answer | None:
        """What to answer at once, for a request that is a question and no event: nothing of it is
        recorded. None for nearly all."""
        return None

    def acknowledgement(self, received: Received, payload: JsonValue) -> Answer | None:
        """What to answer once the request is taken in, where the provider acts on what it is
        answered; None for those that look at the status alone: they are told what was taken."""
        return None

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        """What is the same when the provider sends this again; None when it says nothing usable:
        the key is then an expression's or the body's (`Received.content_key`)."""
        return None

    @abstractmethod
    def event_type(self, received: Received, payload: JsonValue) -> str:
        """A valid event type, whatever the request holds."""

    @abstractmethod
    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        """The headers with which the provider would sign this: for samples and for tests."""

    def suggested_key(self, event_type: str) -> str | None:
        """The key expression suggested for an event type, None when there is none."""
        for pattern, expression in self.suggested_keys.items():
            if matches(pattern, event_type):
                return expression
        return None


def bind(provider: type[Provider], options: Mapping[str, Any], *, pointer: str) -> Provider:
    """The provider with a source's options. Raises InvalidInput (`invalid_options`), pointing at
    each option that is wrong; never with its value."""
    try:
        return provider.model_validate(dict(options))
    except ValidationError as error:
        errors = tuple(
            FieldError(_pointer(pointer, one["loc"]), _advice(provider, one["type"], one["msg"]))
            for one in error.errors(include_url=False, include_input=False, include_context=False)
        )
        first = errors[0]
        option = first.pointer.removeprefix(pointer).removeprefix("/")
        raise InvalidInput(
            f"the options do not fit a source of {provider.name}: "
            + (f"{option}: {first.detail}" if option else first.detail),
            code="invalid_options",
            errors=errors,
        ) from None


def invalid_secret(pointer: str, detail: str) -> InvalidInput:
    """The error for a secret that cannot be the provider's."""
    return InvalidInput.at(pointer, detail, code="invalid_secret")


def usable_id(value: object) -> str | None:
    """`value` when it can be part of an idempotency key: printable ASCII, not empty, not longer
    than MAX_ID_LENGTH."""
    if isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isascii():
        return value if value.isprintable() else None
    return None


def member(payload: JsonValue, *path: str) -> JsonValue:
    """The value at a path of member names; None when anything on the way is missing."""
    value = payload
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _advice(provider: type[Provider], kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        options = ", ".join(provider.model_fields) or "none"
        return f"no such option; {provider.name} has: {options}"
    return message.removeprefix("Value error, ")


def _pointer(pointer: str, loc: Sequence[int | str]) -> str:
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in loc)  # RFC 6901
    return "/".join((pointer, *escaped))
