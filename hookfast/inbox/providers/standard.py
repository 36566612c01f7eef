"""Standard Webhooks: HMAC (`v1`) and ed25519 (`v1a`), over id, timestamp and body.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field

from hookfast.inbox.form import JSON
from hookfast.inbox.naming import folded
from hookfast.inbox.options import Namespace, Tolerance
from hookfast.inbox.provider import (
    Provider,
    Unsigned,
    invalid_secret,
    member,
    usable_id,
)
from hookfast.inbox.received import Received, RequestHeaders
from hookfast.inbox.receiver_check import check_key, keys_of, require_signed
from hookfast.receiver.keys import PUBLIC_KEY_PREFIX
from hookfast.receiver.secret import PREFIX
from hookfast.signing.signature import Profile, secret_key, sign
from hookfast.strict_json.parser import JsonValue

_OURS = "webhook"


class Standard(Provider):
    """Any sender that follows the specification. A secret that is a bare base64 is taken as if
    `whsec_` stood in front of it, as the specification's own libraries do."""

    name = "standard"
    content_types = frozenset({JSON, "application/cloudevents+json"})

    tolerance_seconds: Tolerance = 300
    namespace: Namespace = "standard"
    header_prefix: Literal["webhook", "svix"] = Field(
        default="webhook",
        description="`svix` for senders that name the three headers `svix-id` and so on.",
    )

    def check_secret(self, secret: str, *, pointer: str) -> None:
        check_key(_whole(secret), pointer=pointer)

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        require_signed(
            self._renamed(received.headers),
            received.body,
            keys=keys_of([_whole(secret) for secret in secrets]),
            profiles=["standard-ed25519", "standard"],
            tolerance=timedelta(seconds=self.tolerance_seconds),
            now=now,
        )

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        return usable_id(received.headers.only(f"{self.header_prefix}-id"))

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """The body's `type`, folded under `namespace`."""
        return folded(self.namespace, member(payload, "type"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        if secret.startswith(PUBLIC_KEY_PREFIX):
            raise invalid_secret(
                "/secret", "a public key cannot sign; give the source a whsec_ too"
            )
        headers = sign(
            Profile.STANDARD,
            keys=[secret_key(_whole(secret))],
            message_id=f"msg_{unsigned.id}",
            timestamp=unsigned.timestamp,
            body=unsigned.body,
        )
        return {
            name.replace(_OURS, self.header_prefix, 1): value for name, value in headers.items()
        }

    def _renamed(self, headers: RequestHeaders) -> RequestHeaders:
        """The headers under the specification's names; of any other name none counts."""
        if self.header_prefix == _OURS:
            return headers
        prefix = f"{self.header_prefix}-"
        return RequestHeaders(
            (f"{_OURS}-{name[len(prefix) :]}", value)
            for name, value in headers.items()
            if name.lower().startswith(prefix)
        )


def _whole(secret: str) -> str:
    bare = secret and not secret.startswith((PREFIX, PUBLIC_KEY_PREFIX))
    return PREFIX + secret if bare else secret
