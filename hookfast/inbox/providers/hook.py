"""Another Hookfast, which signs as docs/signatures.md describes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

from pydantic import Field

from hookfast.inbox.naming import valid_event_type
from hookfast.inbox.options import Tolerance
from hookfast.inbox.provider import Provider, Unsigned, invalid_secret, member, usable_id
from hookfast.inbox.receiver_check import check_key, require_signed, signing_key
from hookfast.inbox.request import InboundRequest
from hookfast.receiver import ProfileName
from hookfast.receiver.keys import PUBLIC_KEY_PREFIX
from hookfast.signing.signature import Profile, new_nonce, sign
from hookfast.strict_json.parser import JsonValue

_TOPIC = "X-Hook-Topic"

HookProfile: TypeAlias = Literal["standard", "nonce", "hook"]

_RECEIVER_PROFILES: Final[dict[HookProfile, tuple[ProfileName, ...]]] = {
    "standard": ("standard-ed25519", "standard"),
    "nonce": ("nonce",),
    "hook": ("hook",),
}
"""The profiles of `hookfast.receiver` for each of ours, the strongest first."""


class Hook(Provider):
    """Accepts the `profiles` of the source, by default only `standard` (ed25519 with a `whpk_`). Of
    several signatures, only the strongest accepted one counts.

    An attacker who captured a request with several signatures can remove some of them, so the
    idempotency key must not depend on which are there. When only `standard` is accepted, the key is
    the message id, which `standard` signs. When another profile is accepted too, it is the body (or
    a key expression over it), which every profile signs.
    """

    name = "hook"
    title = "Hookfast"

    tolerance_seconds: Tolerance = 300
    profiles: tuple[HookProfile, ...] = Field(
        default=("standard",),
        min_length=1,
        max_length=len(_RECEIVER_PROFILES),
        description="The accepted signatures. `nonce` and `hook` do not sign the message id: with "
        "one of them, two requests with the same body are duplicates.",
    )
    allow_sha1: bool = Field(default=False, description="Accept `hook` signatures with SHA-1.")

    def check_secret(self, secret: str, *, pointer: str) -> None:
        check_key(secret, pointer=pointer)
        if secret.startswith(PUBLIC_KEY_PREFIX) and "standard" not in self.profiles:
            raise invalid_secret(pointer, "a public key can only verify the profile `standard`")

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        accepted = [one for name in self.profiles for one in _RECEIVER_PROFILES[name]]
        require_signed(
            request.headers,
            request.body,
            secrets=secrets,
            profiles=accepted,
            tolerance_seconds=self.tolerance_seconds,
            now=now,
            allow_sha1=self.allow_sha1,
        )

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        """Return the message id when every accepted profile signs it, otherwise None."""
        if set(self.profiles) != {"standard"}:
            return None
        return usable_id(request.headers.only("webhook-id"))

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return the body's `type`, which is signed, or X-Hook-Topic without one (payload style
        `raw`). It is unchanged except for the sender's operational events, which only this Hookfast
        may emit: `hookfast.endpoint.disabled` becomes `hook.hookfast_endpoint.disabled`."""
        name = member(payload, "type") or request.headers.only(_TOPIC)
        return valid_event_type("hook", name)

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        """Sign with the strongest accepted profile."""
        strongest = next(name for name in _RECEIVER_PROFILES if name in self.profiles)
        message_id = f"dlv_{unsigned.id}"
        return {"X-Hook-Id": message_id, "X-Hook-Attempt": "1"} | sign(
            Profile(strongest),
            keys=[signing_key(secret)],
            message_id=message_id,
            timestamp=unsigned.timestamp,
            body=unsigned.body,
            nonce=new_nonce(),
        )
