"""Stripe: an HMAC over the time and the body, in one header of several fields.

https://docs.stripe.com/webhooks/signature
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from hookfast.inbox.hmac_check import decoded, keys_of, require_match, signature
from hookfast.inbox.naming import folded
from hookfast.inbox.options import Tolerance
from hookfast.inbox.provider import (
    Provider,
    Unsigned,
    invalid_secret,
    member,
    usable_id,
)
from hookfast.inbox.received import Received
from hookfast.inbox.refused import Refused
from hookfast.inbox.signed_time import parse_time, require_fresh
from hookfast.strict_json.parser import JsonValue

_HEADER = "Stripe-Signature"
_SCHEME = "v1"
_MAX_FIELDS = 32


class Stripe(Provider):
    """Account and Connect webhooks, snapshot and thin events. The secret is the endpoint's
    `whsec_…`, used as it stands, the prefix included."""

    name = "stripe"
    suggested_keys: ClassVar = {
        f"stripe.*.{verb}": "[type, data.object.id]"
        for verb in ("created", "deleted", "paid", "succeeded")
    }

    tolerance_seconds: Tolerance = 300

    def check_secret(self, secret: str, *, pointer: str) -> None:
        super().check_secret(secret, pointer=pointer)
        if not secret.startswith("whsec_"):
            raise invalid_secret(
                pointer, "Stripe's signing secrets begin with whsec_; an API key (sk_…) is none"
            )

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        keys = keys_of(secrets)
        timestamp, signatures = _fields(received.headers.required(_HEADER))
        # as it came, not as a number: `t=01` signs other bytes than `t=1`
        require_match(signatures, keys, timestamp.encode() + b"." + received.body)
        require_fresh(
            timestamp,
            header=_HEADER,
            now=now,
            tolerance=timedelta(seconds=self.tolerance_seconds),
        )

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        return usable_id(member(payload, "id"))

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """The body's `type`: its last word is the verb, all before it the noun."""
        return folded("stripe", member(payload, "type"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        message = b"%d.%b" % (unsigned.timestamp, unsigned.body)
        return {_HEADER: f"t={unsigned.timestamp},{_SCHEME}={signature(secret, message)}"}


def _fields(value: str) -> tuple[str, list[bytes]]:
    """The time, and every signature of the one accepted scheme. `v0` is for Stripe's own tests and
    would be a downgrade; a broken signature beside a good one is passed over, as Stripe's SDKs do.
    """
    pairs = [field.partition("=") for field in value.split(",")]
    if len(pairs) > _MAX_FIELDS:
        raise Refused("signature_malformed", f"{_HEADER} has more than {_MAX_FIELDS} fields")
    times = [text for name, _, text in pairs if name == "t"]
    if len(times) != 1:
        raise Refused("signature_malformed", f"{_HEADER} must have the field t once")
    parse_time(times[0], header=_HEADER)
    found = [text for name, _, text in pairs if name == _SCHEME]
    if not found:
        raise Refused("signature_not_accepted", f"{_HEADER} has no {_SCHEME} signature")
    signatures = [raw for text in found if (raw := _raw(text)) is not None]
    if not signatures:
        raise Refused(
            "signature_malformed", f"no {_SCHEME} of {_HEADER} is 64 lower-case hex digits"
        )
    return times[0], signatures


def _raw(text: str) -> bytes | None:
    try:
        return decoded(text, header=_HEADER, encoding="hex")
    except Refused:
        return None
