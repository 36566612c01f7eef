"""The interface of a provider: verify its requests, identify deliveries and name events. Pure.

The fields of a provider class are the options of its sources, so an instance is the provider with
one source's options. `hookfast/inbox/providers/` has all of them.

The HTTP layer calls `verify`, then `check_content_type`, and only then the other methods, because
an unverified request cannot be trusted: `read`, `answer`, `delivery_id`, `event_type`,
`acknowledgement`. For a body that is not JSON, the payload of the last four is None.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from hookfast.errors import FieldError, InvalidInput, join_pointer
from hookfast.inbox.errors import UnsupportedContentType
from hookfast.inbox.form import FORM, read_form
from hookfast.inbox.media_type import is_json
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json import tolerant
from hookfast.strict_json.parser import JsonValue
from hookfast.strict_json.tolerant import Reading

MIN_SECRET_LENGTH = 16
MAX_SECRET_LENGTH = 1024
"""Bounds of a secret when a source is created, in characters."""
MAX_ID_LENGTH = 200
"""Longest delivery id, in characters; a longer one is ignored."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The HTTP response that a provider expects. Without a content type, the body is empty."""

    status: int
    content_type: str | None = None
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsigned:
    """A sample request to sign as the provider would."""

    body: bytes
    content_type: str
    url: str
    id: str
    """A new id, for schemes that sign one."""
    at: datetime

    @property
    def timestamp(self) -> int:
        """Unix seconds."""
        return int(self.at.timestamp())


class Provider(BaseModel):
    """The base class of all providers. Unknown options are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: ClassVar[str]
    """The value of a source's `provider`, and the first part of the event types."""
    title: ClassVar[str]
    """What the provider calls itself, for people."""
    sends_forms: ClassVar[bool] = False
    """Whether the provider sends forms (`FORM`) as well as JSON."""
    json_field: ClassVar[str | None] = None
    """The field of a form in which the provider sends JSON."""
    lets_choose_secret: ClassVar[bool] = False
    """Whether the user chooses the secret at the provider; then Hookfast can generate one."""
    suggested_keys: ClassVar[Mapping[str, str]] = {}
    """The key expression that identifies the business fact, by event type pattern."""
    id_headers: ClassVar[frozenset[str]] = frozenset()
    """Headers that hold this provider's delivery id, and something else at other providers."""

    def check_secret(self, secret: str, *, pointer: str) -> None:
        """Raise InvalidInput (`invalid_secret`) for a secret that cannot be the provider's. The
        message does not contain the secret."""
        if secret != secret.strip() or not secret.isprintable():
            raise invalid_secret(
                pointer, "remove white space around the secret and control characters in it"
            )
        if not MIN_SECRET_LENGTH <= len(secret) <= MAX_SECRET_LENGTH:
            raise invalid_secret(
                pointer,
                f"use a secret of {MIN_SECRET_LENGTH} to {MAX_SECRET_LENGTH} characters for "
                f"{self.name}, long and random",
            )
        try:
            secret.encode()
        except UnicodeEncodeError:
            raise invalid_secret(pointer, "a secret must be text that UTF-8 can encode") from None

    @property
    def other_content_types(self) -> Sequence[str]:
        """Media types that the source accepts besides those of its provider."""
        return ()

    def check_content_type(self, request: InboundRequest) -> None:
        """Raise UnsupportedContentType unless this provider sends bodies of this type. A request
        without a Content-Type is accepted: its signature says who sent it, its body what it is."""
        if len(request.headers.all("Content-Type")) > 1:
            raise UnsupportedContentType("Content-Type appears more than once; send it once")
        sent = request.content_type
        if not sent or is_json(sent) or sent in self.other_content_types:
            return
        if not (self.sends_forms and sent == FORM):
            raise UnsupportedContentType(
                " or ".join(
                    [
                        f"{self.name} sends application/json, another +json type",
                        *([FORM] if self.sends_forms else []),
                        *self.other_content_types,
                    ]
                )
            )

    @abstractmethod
    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        """Raise RequestRejected unless the provider signed exactly this request with one of the
        secrets (the current one first, then the previous ones)."""

    def read(self, request: InboundRequest) -> Reading:
        """Return the body as JSON, as far as a tolerant reader gets. Raises InvalidInput when it is
        not JSON at all."""
        if request.content_type == FORM:
            return read_form(request.body, encoding=request.encoding, json_field=self.json_field)
        return tolerant.read(request.body, encoding=request.encoding)

    def payload(self, request: InboundRequest) -> JsonValue:
        """Return the value of the body, as `read` does."""
        return self.read(request).value

    def answer(self, request: InboundRequest, payload: JsonValue) -> Answer | None:
        """Return the immediate answer to a request that is a question, which is not recorded. None
        for events, which nearly all requests are."""
        return None

    def acknowledgement(self, request: InboundRequest, payload: JsonValue) -> Answer | None:
        """Return the answer to an accepted request when the provider acts on its content. None when
        the provider only reads the status: it then gets the inbox entry."""
        return None

    @property
    def chooses_id(self) -> bool:
        """Whether `delivery_id` is what an expression of the source chooses. It then identifies a
        request whatever its bytes; an id of the provider's own does so together with them."""
        return False

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        """Return the id that is the same when the provider sends this request again. None when it
        has no usable id: the key is then the source's expression or `content_key`."""
        return None

    def content_key(self, request: InboundRequest) -> str:
        """Return the idempotency key of a request without any other."""
        return request.content_key

    @abstractmethod
    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return a valid event type, whatever the request contains."""

    @abstractmethod
    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        """Return the headers with which the provider would sign a sample or test request."""


def bind(provider: type[Provider], options: Mapping[str, Any], *, pointer: str) -> Provider:
    """Return the provider with a source's options. Raises InvalidInput (`invalid_options`), which
    points at each wrong option and never contains its value."""
    try:
        return provider.model_validate(dict(options))
    except ValidationError as error:
        errors = tuple(
            FieldError(
                join_pointer(pointer, *one["loc"]), _advice(provider, one["type"], one["msg"])
            )
            for one in error.errors(include_url=False, include_input=False, include_context=False)
        )
        first = errors[0]
        option = first.pointer.removeprefix(pointer).removeprefix("/")
        raise InvalidInput(
            f"the options are not valid for the provider {provider.name}: "
            + (f"{option}: {first.detail}" if option else first.detail),
            code="invalid_options",
            errors=errors,
        ) from None


def invalid_secret(pointer: str, detail: str) -> InvalidInput:
    """Return the error for a secret that cannot be the provider's."""
    return InvalidInput.at(pointer, detail, code="invalid_secret")


def usable_id(value: object) -> str | None:
    """Return `value` when it can be part of an idempotency key: 1 to MAX_ID_LENGTH characters of
    printable ASCII. Otherwise None."""
    if isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH and value.isascii():
        return value if value.isprintable() else None
    return None


def member(payload: JsonValue, *path: str) -> JsonValue:
    """Return the value at a path of member names, or None when a member is missing."""
    value = payload
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _advice(provider: type[Provider], kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        options = ", ".join(provider.model_fields) or "none"
        return f"unknown option; {provider.name} has: {options}"
    return message.removeprefix("Value error, ")
