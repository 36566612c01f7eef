"""Any provider that sends an HMAC in a header: the options say what it signs, and how."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Self

from pydantic import Field, model_validator

from hookfast.inbox.expression import compile_expression
from hookfast.inbox.hmac_check import (
    Encoding,
    Hash,
    decode_signature,
    hmac_keys,
    hmac_signature,
    require_signature,
)
from hookfast.inbox.naming import event_type_from
from hookfast.inbox.options import (
    ContentTypes,
    ExpressionText,
    FixedType,
    HeaderName,
    Namespace,
    Tolerance,
)
from hookfast.inbox.provider import Provider, Unsigned, usable_id
from hookfast.inbox.request import InboundRequest
from hookfast.inbox.signed_time import require_fresh
from hookfast.strict_json.parser import JsonValue

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDERS = {"body", "timestamp", "id", "method", "url"}


class Generic(Provider):
    """A custom HMAC scheme. Signed headers, like the signature, must appear exactly once."""

    name = "generic"
    title = "Generic HMAC"
    lets_choose_secret = True
    sends_forms = True

    signature_header: HeaderName = Field(description="The header with the signature.")
    hash: Hash = Field(default="sha256", description="The hash inside the HMAC.")
    encoding: Encoding = Field(default="hex", description="The encoding of the signature.")
    prefix: str = Field(
        default="",
        max_length=40,
        pattern=r"^[!-~]*$",
        description="The text before the signature in its header, e.g. `sha256=`.",
    )
    message: str = Field(
        default="{body}",
        max_length=200,
        description="The signed text: `{body}` once, and `{timestamp}`, `{id}`, `{method}` and "
        "`{url}` if the provider signs them.",
    )
    timestamp_header: HeaderName | None = Field(
        default=None, description="The header with the signed Unix time; requires `{timestamp}`."
    )
    timestamp_unit: Literal["seconds", "milliseconds"] = "seconds"
    tolerance_seconds: Tolerance = 300
    id_header: HeaderName | None = Field(
        default=None,
        description="The header with an id that is the same when a request is sent again.",
    )
    id_expression: ExpressionText | None = Field(
        default=None, description="A key expression for that id, if it is in the body."
    )
    namespace: Namespace = "generic"
    fixed_type: FixedType | None = Field(
        default=None, description="One event type for all requests."
    )
    type_header: HeaderName | None = Field(
        default=None, description="The header that names the event."
    )
    type_expression: ExpressionText | None = Field(
        default=None, description="A key expression that names the event, e.g. `type`."
    )
    content_types: ContentTypes = ()

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        places = _PLACEHOLDER.findall(self.message)
        rest = _PLACEHOLDER.sub("", self.message)
        if "{" in rest or "}" in rest or not set(places) <= _PLACEHOLDERS:
            raise ValueError("`message` can only use {body}, {timestamp}, {id}, {method} and {url}")
        if places.count("body") != 1 or len(set(places)) != len(places):
            raise ValueError("`message` must contain {body} once, and no placeholder twice")
        if ("timestamp" in places) != (self.timestamp_header is not None):
            # an unsigned time proves nothing: an attacker who replays a request sets it to now
            raise ValueError("`timestamp_header` and {timestamp} in `message` require each other")
        if "id" in places and self.id_header is None:
            raise ValueError("{id} in `message` requires `id_header`")
        if self.id_header is not None and self.id_expression is not None:
            raise ValueError("use only one of `id_header` and `id_expression`")
        type_options = (self.fixed_type, self.type_header, self.type_expression)
        if sum(option is not None for option in type_options) > 1:
            raise ValueError("use only one of `fixed_type`, `type_header` and `type_expression`")
        return self

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        keys = hmac_keys(secrets)
        text = request.headers.required(self.signature_header)
        raw = decode_signature(
            text,
            header=self.signature_header,
            prefix=self.prefix,
            encoding=self.encoding,
            hash_name=self.hash,
        )
        message = self._message(
            request.body,
            timestamp=self._signed_header(request, "timestamp", self.timestamp_header),
            id=self._signed_header(request, "id", self.id_header),
            method=request.method,
            url=request.url,
        )
        require_signature([raw], keys, message, hash_name=self.hash)
        if self.timestamp_header is not None:
            require_fresh(
                request.headers.required(self.timestamp_header),
                header=self.timestamp_header,
                now=now,
                tolerance_seconds=self.tolerance_seconds,
                milliseconds=self.timestamp_unit == "milliseconds",
            )

    @property
    def other_content_types(self) -> Sequence[str]:
        return self.content_types

    @property
    def chooses_id(self) -> bool:
        return self.id_expression is not None

    def content_key(self, request: InboundRequest) -> str:
        """Return the body's hash, with the signed time if there is one: equal bodies that are
        signed at different times are different requests."""
        key = super().content_key(request)
        if self.timestamp_header is None:
            return key
        return f"time:{request.headers.only(self.timestamp_header)}/{key}"

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        if self.id_header is not None:
            return usable_id(request.headers.only(self.id_header))
        if self.id_expression is not None:
            return usable_id(compile_expression(self.id_expression, pointer="").key(payload))
        return None

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return `fixed_type`, or the name in the header or expression, under `namespace`."""
        if self.fixed_type is not None:
            return self.fixed_type
        if self.type_header is not None:
            return event_type_from(self.namespace, request.headers.only(self.type_header))
        if self.type_expression is not None:
            expression = compile_expression(self.type_expression, pointer="")
            return event_type_from(self.namespace, expression.value(payload))
        return event_type_from(self.namespace, None)

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        headers: dict[str, str] = {}
        unit = 1000 if self.timestamp_unit == "milliseconds" else 1
        timestamp = str(unsigned.timestamp * unit)
        if self.timestamp_header is not None:
            headers[self.timestamp_header] = timestamp
        if self.id_header is not None:
            headers[self.id_header] = unsigned.id
        message = self._message(
            unsigned.body, timestamp=timestamp, id=unsigned.id, method="POST", url=unsigned.url
        )
        text = hmac_signature(secret, message, hash_name=self.hash, encoding=self.encoding)
        return headers | {self.signature_header: self.prefix + text}

    def _signed_header(self, request: InboundRequest, placeholder: str, header: str | None) -> str:
        """Return the value of a header that is part of the message, otherwise an empty string."""
        if header is None or f"{{{placeholder}}}" not in self.message:
            return ""
        return request.headers.required(header)

    def _message(self, body: bytes, **values: str) -> bytes:
        # the body is inserted last: braces in it are not placeholders
        before, _, after = self.message.partition("{body}")
        filled = (
            _PLACEHOLDER.sub(lambda found: values[found[1]], text).encode(errors="replace")
            for text in (before, after)
        )
        return body.join(filled)
