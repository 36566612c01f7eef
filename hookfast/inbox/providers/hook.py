"""Another Hookfast: what an endpoint of it sends (docs/signatures.md)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from pydantic import Field

from hookfast.inbox.naming import kept_or_folded
from hookfast.inbox.options import Tolerance
from hookfast.inbox.provider import (
    Provider,
    Unsigned,
    invalid_secret,
    member,
    usable_id,
)
from hookfast.inbox.received import Received
from hookfast.inbox.receiver_check import check_key, keys_of, require_signed
from hookfast.receiver import ProfileName
from hookfast.receiver.keys import PUBLIC_KEY_PREFIX
from hookfast.signing.signature import Profile, new_nonce, secret_key, sign
from hookfast.strict_json.parser import JsonValue

_TOPIC = "X-Hook-Topic"

HookProfile: TypeAlias = Literal["standard", "nonce", "hook"]

_VERIFIED_AS: Final[dict[HookProfile, tuple[ProfileName, ...]]] = {
    "standard": ("standard-ed25519", "standard"),
    "nonce": ("nonce",),
    "hook": ("hook",),
}
"""The strongest first."""


class Hook(Provider):
    """Takes the `profiles` of the source, by default `standard` alone, with `whpk_` as ed25519. Of
    several signatures that come the strongest of these counts alone.

    Whoever has captured a request with several chooses which of them to leave: so what makes it the
    same again must not depend on which came. Where `standard` is all that is accepted, it is the
    message id, which `standard` signs; as soon as a profile is accepted that does not sign it, it
    is the body (or a key expression over it), which every profile signs.
    """

    name = "hook"

    tolerance_seconds: Tolerance = 300
    profiles: tuple[HookProfile, ...] = Field(
        default=("standard",),
        min_length=1,
        max_length=len(_VERIFIED_AS),
        description="Which signatures are accepted. `nonce` and `hook` do not sign the message id: "
        "with one of them two requests with the same body are one.",
    )
    allow_sha1: bool = Field(default=False, description="Accept `hook` signatures with SHA-1.")

    def check_secret(self, secret: str, *, pointer: str) -> None:
        check_key(secret, pointer=pointer)
        if secret.startswith(PUBLIC_KEY_PREFIX) and "standard" not in self.profiles:
            raise invalid_secret(pointer, "a public key verifies the profile `standard` alone")

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        accepted = [one for name in self.profiles for one in _VERIFIED_AS[name]]
        require_signed(
            received.headers,
            received.body,
            keys=keys_of(secrets),
            profiles=accepted,
            tolerance=timedelta(seconds=self.tolerance_seconds),
            now=now,
            allow_sha1=self.allow_sha1,
        )

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        """The message id where every profile that is accepted signs it."""
        if set(self.profiles) != {"standard"}:
            return None
        return usable_id(received.headers.only("webhook-id"))

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """The body's `type`, for it is signed; X-Hook-Topic where the body has none (payload style
        `raw`). It stays as it is, except the sender's own operational events, which only this
        Hookfast may emit: `hookfast.endpoint.disabled` is `hook.hookfast_endpoint.disabled`."""
        named = member(payload, "type") or received.headers.only(_TOPIC)
        return kept_or_folded("hook", named)

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        """With the strongest of the profiles."""
        if secret.startswith(PUBLIC_KEY_PREFIX):
            raise invalid_secret(
                "/secret", "a public key cannot sign; give the source a whsec_ too"
            )
        strongest = next(name for name in _VERIFIED_AS if name in self.profiles)
        message_id = f"dlv_{unsigned.id}"
        return {"X-Hook-Id": message_id, "X-Hook-Attempt": "1"} | sign(
            Profile(strongest),
            keys=[secret_key(secret)],
            message_id=message_id,
            timestamp=unsigned.timestamp,
            body=unsigned.body,
            nonce=new_nonce(),
        )
