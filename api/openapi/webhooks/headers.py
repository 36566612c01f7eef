"""The headers of deliveries, as OpenAPI parameters."""

from __future__ import annotations

from typing import Any

from hookfast.events.hops import HEADER as HOPS_HEADER
from hookfast.events.hops import MAX_HOPS
from hookfast.ids import id_pattern

_DELIVERY_ID = id_pattern("dlv")
_NUMBER = r"^[1-9][0-9]*$"
_SECONDS = r"^[0-9]+$"
_HEX = r"[0-9a-f]"
_BASE64 = r"[A-Za-z0-9+/]+=*"
_HASHES = "(sha1|sha256|sha512)"

_ALWAYS = {
    "X-Hook-Id": (
        "Id of the delivery, the same for each of its attempts: process it once. That of a test "
        "belongs to no delivery.",
        _DELIVERY_ID,
    ),
    "X-Hook-Topic": ("The event's type. It is not signed; the body's `type` is.", r"^\S+$"),
    "X-Hook-Attempt": ("Number of the attempt, from 1. It is not signed.", _NUMBER),
    "traceparent": (
        "W3C Trace Context. The trace is that of the request which emitted the event.",
        rf"^00-{_HEX}{{32}}-{_HEX}{{16}}-{_HEX}{{2}}$",
    ),
    "User-Agent": ("`Hookfast/` and its version.", r"^Hookfast/\S+$"),
}
_SOMETIMES = {
    HOPS_HEADER: (
        "How many services the event came through by their sources; left out for 0. Send it on if "
        f"you forward the event: a source rejects more than {MAX_HOPS} as a loop.",
        _NUMBER,
    ),
    "X-Hook-Test": (
        "`true` if a person tests the endpoint: nothing was emitted. It is not signed, so use it "
        "to skip work, never to allow work.",
        "^true$",
    ),
    "X-Hook-Signature": (
        "Profile `hook`: `<hash>=<hex>`, the HMAC of `<X-Hook-Timestamp>.<body>`. While a secret "
        "is rotated there is one for each, separated by commas.",
        rf"^{_HASHES}={_HEX}+(,{_HASHES}={_HEX}+)*$",
    ),
    "X-Hook-Timestamp": ("Profile `hook`: the attempt's time in Unix seconds.", _SECONDS),
    "webhook-id": (
        "Profiles `standard` and `standard-ed25519`: the same as `X-Hook-Id`, and signed.",
        _DELIVERY_ID,
    ),
    "webhook-timestamp": (
        "Profiles `standard` and `standard-ed25519`: the attempt's time in Unix seconds. Reject "
        "a request whose time is more than five minutes off.",
        _SECONDS,
    ),
    "webhook-signature": (
        "Standard Webhooks: `v1,<base64>` (profile `standard`, HMAC-SHA-256) or `v1a,<base64>` "
        "(`standard-ed25519`) over `<webhook-id>.<webhook-timestamp>.<body>`. While keys are "
        "rotated there is one for each, separated by spaces; one has to match.",
        rf"^v1a?,{_BASE64}( v1a?,{_BASE64})*$",
    ),
    "X-Webhook-Signature": (
        "Profile `nonce`: `sha256=<hex>` over `<X-Webhook-Timestamp>.<X-Webhook-Nonce>.<body>`; "
        "`body`: the same over the body alone; both with one for each secret, separated by commas. "
        "Profile `rsa`: `rsa-sha256=<base64>` over `<X-Webhook-Timestamp>.<body>`.",
        rf"^(sha256={_HEX}{{64}}(,sha256={_HEX}{{64}})*|rsa-sha256={_BASE64})$",
    ),
    "X-Webhook-Timestamp": (
        "Profiles `nonce` and `rsa`: the attempt's time in Unix seconds.",
        _SECONDS,
    ),
    "X-Webhook-Id": (
        "Profiles `nonce` and `body`: the same as `X-Hook-Id`, and not signed.",
        _DELIVERY_ID,
    ),
    "X-Webhook-Nonce": (
        "Profile `nonce`: 128 random bits, new for each attempt.",
        rf"^{_HEX}{{32}}$",
    ),
    "X-Webhook-Attempt": ("Profile `nonce`: the same as `X-Hook-Attempt`.", _NUMBER),
    "X-Webhook-Event": ("Profile `body`: the same as `X-Hook-Topic`.", r"^\S+$"),
    "X-Webhook-Key-Id": (
        "Profile `rsa`: the `kid` of a key in `/.well-known/hookfast-keys.json`.",
        rf"^{_BASE64.replace('+/', '_-')}$",
    ),
}


def header_parameters() -> dict[str, dict[str, Any]]:
    """Return the parameter object of each header of a delivery, by its name. `Content-Type` and
    `Authorization` are not among them (OpenAPI 3.1, section 4.8.12.2)."""
    return {
        name: {
            "name": name,
            "in": "header",
            "required": name in _ALWAYS,
            "description": description,
            "schema": {"type": "string", "pattern": pattern},
        }
        for name, (description, pattern) in (_ALWAYS | _SOMETIMES).items()
    }
