"""The simplest scheme: one header holds an HMAC-SHA-256 of the body."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hookfast.inbox.hmac_check import Encoding, decoded, keys_of, require_match, signature
from hookfast.inbox.provider import Provider, Unsigned, usable_id
from hookfast.inbox.received import Received
from hookfast.inbox.refused import Refused
from hookfast.strict_json.parser import JsonValue


class BodyHmac(Provider):
    """Base of providers that sign the body alone; they differ in the values below."""

    signature_header: ClassVar[str]
    prefix: ClassVar[str] = ""
    """Text before the signature, e.g. `sha256=`."""
    encoding: ClassVar[Encoding] = "hex"
    delivery_headers: ClassVar[Sequence[str]] = ()
    """Headers that may hold the delivery's id; the first that is there counts."""

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        self.require_signed(received, self.signature_header, keys_of(secrets))

    def require_signed(self, received: Received, header: str, keys: Sequence[bytes]) -> None:
        """Raise Refused unless this header holds a signature of the body with one of `keys`."""
        text = received.headers.required(header)
        if not text.startswith(self.prefix):
            raise Refused("signature_malformed", f"{header} does not begin with {self.prefix}")
        raw = decoded(text.removeprefix(self.prefix), header=header, encoding=self.encoding)
        require_match([raw], keys, received.body)

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        found = (received.headers.only(name) for name in self.delivery_headers)
        return usable_id(next(filter(None, found), None))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        text = signature(secret, unsigned.body, encoding=self.encoding)
        return {self.signature_header: f"{self.prefix}{text}"}
