"""Stripe signs the time and the body, with an HMAC in a header of several fields.

https://docs.stripe.com/webhooks/signature
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.hmac_check import decode_signature, hmac_keys, hmac_signature, require_signature
from hookfast.inbox.naming import event_type_from
from hookfast.inbox.options import Tolerance
from hookfast.inbox.provider import Provider, Unsigned, invalid_secret, member, usable_id
from hookfast.inbox.request import InboundRequest
from hookfast.inbox.signed_time import parse_time, require_fresh
from hookfast.strict_json.parser import JsonValue

_HEADER = "Stripe-Signature"
_SCHEME = "v1"
_MAX_FIELDS = 32


class Stripe(Provider):
    """Account and Connect webhooks, snapshot and thin events. The secret is the endpoint's
    `whsec_…`, used unchanged, including the prefix."""

    name = "stripe"
    title = "Stripe"
    suggested_keys: ClassVar = {
        f"stripe.*.{verb}": "[type, data.object.id]"
        for verb in ("created", "deleted", "paid", "succeeded")
    }

    tolerance_seconds: Tolerance = 300

    def check_secret(self, secret: str, *, pointer: str) -> None:
        super().check_secret(secret, pointer=pointer)
        if not secret.startswith("whsec_"):
            raise invalid_secret(
                pointer, "Stripe's signing secrets begin with whsec_; do not use an API key (sk_…)"
            )

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        keys = hmac_keys(secrets)
        timestamp, signatures = _fields(request.headers.required(_HEADER))
        # the original text, not the number: `t=01` signs other bytes than `t=1`
        require_signature(signatures, keys, timestamp.encode() + b"." + request.body)
        require_fresh(timestamp, header=_HEADER, now=now, tolerance_seconds=self.tolerance_seconds)

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        return usable_id(member(payload, "id"))

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return the event type for the body's `type`: the last word is the verb."""
        return event_type_from("stripe", member(payload, "type"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        message = b"%d.%b" % (unsigned.timestamp, unsigned.body)
        return {_HEADER: f"t={unsigned.timestamp},{_SCHEME}={hmac_signature(secret, message)}"}


def _fields(value: str) -> tuple[str, list[bytes]]:
    """Return the time and every signature of the accepted scheme. `v0` is for Stripe's own tests
    and would be a downgrade. A malformed signature beside a valid one is ignored, as by Stripe's
    SDKs."""
    pairs = [field.partition("=") for field in value.split(",")]
    if len(pairs) > _MAX_FIELDS:
        raise RequestRejected(
            "signature_malformed", f"{_HEADER} has more than {_MAX_FIELDS} fields"
        )
    times = [text for name, _, text in pairs if name == "t"]
    if len(times) != 1:
        raise RequestRejected("signature_malformed", f"{_HEADER} must have exactly one field t")
    parse_time(times[0], header=_HEADER)
    encoded = [text for name, _, text in pairs if name == _SCHEME]
    if not encoded:
        raise RequestRejected("signature_not_accepted", f"{_HEADER} has no {_SCHEME} signature")
    signatures = [raw for text in encoded if (raw := _raw(text)) is not None]
    if not signatures:
        raise RequestRejected(
            "signature_malformed",
            f"{_HEADER} has no {_SCHEME} signature of 64 lower-case hex digits",
        )
    return times[0], signatures


def _raw(text: str) -> bytes | None:
    try:
        return decode_signature(text, header=_HEADER)
    except RequestRejected:
        return None
