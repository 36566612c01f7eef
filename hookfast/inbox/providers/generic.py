"""Any provider that sends an HMAC in a header: what is signed, and how, is said by the options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, Self

from pydantic import Field, model_validator

from hookfast.inbox.expression import compile_expression
from hookfast.inbox.form import FORM, JSON, form_object
from hookfast.inbox.hmac_check import Encoding, Hash, decoded, keys_of, require_match, signature
from hookfast.inbox.naming import folded
from hookfast.inbox.options import FixedType, HeaderName, KeyExpression, Namespace, Tolerance
from hookfast.inbox.provider import Provider, Unsigned, usable_id
from hookfast.inbox.received import Received
from hookfast.inbox.refused import Refused
from hookfast.inbox.signed_time import require_fresh
from hookfast.strict_json.parser import JsonValue

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PLACES = {"body", "timestamp", "id", "method", "url"}


class Generic(Provider):
    """A scheme of one's own. A header that is signed has to come once, like the signature."""

    name = "generic"
    lets_choose_secret = True
    content_types = frozenset({JSON, FORM})

    signature_header: HeaderName = Field(description="The header that holds the signature.")
    hash: Hash = Field(default="sha256", description="The hash inside the HMAC.")
    encoding: Encoding = Field(default="hex", description="How the signature is written.")
    prefix: str = Field(
        default="",
        max_length=40,
        pattern=r"^[!-~]*$",
        description="What stands in front of the signature in its header, e.g. `sha256=`.",
    )
    message: str = Field(
        default="{body}",
        max_length=200,
        description="What is signed: text with `{body}` once, and `{timestamp}`, `{id}`, "
        "`{method}`, `{url}` where the provider signs them.",
    )
    timestamp_header: HeaderName | None = Field(
        default=None, description="The header with the signed Unix time; with `{timestamp}`."
    )
    timestamp_unit: Literal["seconds", "milliseconds"] = "seconds"
    tolerance_seconds: Tolerance = 300
    id_header: HeaderName | None = Field(
        default=None, description="The header with an id that stays when a request is sent again."
    )
    id_expression: KeyExpression | None = Field(
        default=None, description="A key expression for that id, where the body holds it."
    )
    namespace: Namespace = "generic"
    fixed_type: FixedType | None = Field(
        default=None, description="One event type for everything that comes."
    )
    type_header: HeaderName | None = Field(
        default=None, description="The header that names the event."
    )
    type_expression: KeyExpression | None = Field(
        default=None, description="A key expression that names the event, e.g. `type`."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        places = _PLACEHOLDER.findall(self.message)
        rest = _PLACEHOLDER.sub("", self.message)
        if "{" in rest or "}" in rest or not set(places) <= _PLACES:
            raise ValueError("`message` knows {body}, {timestamp}, {id}, {method} and {url} only")
        if places.count("body") != 1 or len(set(places)) != len(places):
            raise ValueError("`message` needs {body} once, and nothing else twice")
        if ("timestamp" in places) != (self.timestamp_header is not None):
            # an unsigned time proves nothing: whoever sends an old request again sets it to now
            raise ValueError("`timestamp_header` and {timestamp} in `message` go together")
        if "id" in places and self.id_header is None:
            raise ValueError("{id} in `message` needs `id_header`")
        if self.id_header is not None and self.id_expression is not None:
            raise ValueError("`id_header` and `id_expression` exclude each other")
        if (
            sum(x is not None for x in (self.fixed_type, self.type_header, self.type_expression))
            > 1
        ):
            raise ValueError("use one of `fixed_type`, `type_header` and `type_expression`")
        return self

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        keys = keys_of(secrets)
        text = received.headers.required(self.signature_header)
        if not text.startswith(self.prefix):
            raise Refused(
                "signature_malformed", f"{self.signature_header} does not begin as it should"
            )
        raw = decoded(
            text.removeprefix(self.prefix),
            header=self.signature_header,
            encoding=self.encoding,
            hash_name=self.hash,
        )
        message = self._message(
            received.body,
            timestamp=self._signed(received, "timestamp", self.timestamp_header),
            id=self._signed(received, "id", self.id_header),
            method=received.method,
            url=received.url,
        )
        require_match([raw], keys, message, hash_name=self.hash)
        if self.timestamp_header is not None:
            require_fresh(
                received.headers.required(self.timestamp_header),
                header=self.timestamp_header,
                now=now,
                tolerance=timedelta(seconds=self.tolerance_seconds),
                milliseconds=self.timestamp_unit == "milliseconds",
            )

    def payload(self, received: Received) -> JsonValue:
        if received.content_type == FORM:
            return dict(form_object(received.body))
        return super().payload(received)

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        if self.id_header is not None:
            return usable_id(received.headers.only(self.id_header))
        if self.id_expression is not None:
            return usable_id(compile_expression(self.id_expression, pointer="").key(payload))
        return None

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """`fixed_type`, or what the header or expression says folded under `namespace`."""
        if self.fixed_type is not None:
            return self.fixed_type
        if self.type_header is not None:
            return folded(self.namespace, received.headers.only(self.type_header))
        if self.type_expression is not None:
            expression = compile_expression(self.type_expression, pointer="")
            return folded(self.namespace, expression.value(payload))
        return folded(self.namespace, None)

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
        text = signature(secret, message, hash_name=self.hash, encoding=self.encoding)
        return headers | {self.signature_header: self.prefix + text}

    def _signed(self, received: Received, place: str, header: str | None) -> str:
        """The value of a header that is part of the message, nothing when it is not."""
        if header is None or f"{{{place}}}" not in self.message:
            return ""
        return received.headers.required(header)

    def _message(self, body: bytes, **places: str) -> bytes:
        # the body is put in last: braces in it are no placeholders
        before, _, after = self.message.partition("{body}")
        filled = (
            _PLACEHOLDER.sub(lambda found: places[found[1]], text).encode(errors="replace")
            for text in (before, after)
        )
        return body.join(filled)
