"""The simplest scheme: one header holds an HMAC-SHA-256 of the body."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.hmac_check import (
    Encoding,
    decode_signature,
    hmac_keys,
    hmac_signature,
    require_signature,
)
from hookfast.inbox.provider import Provider, Unsigned, usable_id
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue


class BodyHmac(Provider):
    """Base of providers that sign the body alone; they differ in the values below."""

    signature_header: ClassVar[str]
    prefix: ClassVar[str] = ""
    """Text before the signature, e.g. `sha256=`."""
    encoding: ClassVar[Encoding] = "hex"
    delivery_headers: ClassVar[Sequence[str]] = ()
    """Headers that may hold the delivery's id; the first that is there counts."""

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        self.require_signed(request, self.signature_header, hmac_keys(secrets))

    def require_signed(self, request: InboundRequest, header: str, keys: Sequence[bytes]) -> None:
        """Raise RequestRejected unless one of the keys made the body's signature in this header."""
        text = request.headers.required(header)
        if not text.startswith(self.prefix):
            raise RequestRejected(
                "signature_malformed", f"{header} does not begin with {self.prefix}"
            )
        raw = decode_signature(
            text.removeprefix(self.prefix), header=header, encoding=self.encoding
        )
        require_signature([raw], keys, request.body)

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        found = (request.headers.only(name) for name in self.delivery_headers)
        return usable_id(next(filter(None, found), None))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        text = hmac_signature(secret, unsigned.body, encoding=self.encoding)
        return {self.signature_header: f"{self.prefix}{text}"}
