"""Standard Webhooks: HMAC (`v1`) and ed25519 (`v1a`) signatures of id, timestamp and body.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from hookfast.inbox.naming import event_type_from
from hookfast.inbox.options import ContentTypes, Namespace, Tolerance
from hookfast.inbox.provider import Provider, Unsigned, member, usable_id
from hookfast.inbox.receiver_check import check_key, require_signed, signing_key
from hookfast.inbox.request import InboundRequest, RequestHeaders
from hookfast.receiver.keys import PUBLIC_KEY_PREFIX
from hookfast.receiver.secret import PREFIX
from hookfast.signing.signature import Profile, sign
from hookfast.strict_json.parser import JsonValue

_SPECIFIED_PREFIX = "webhook"


class Standard(Provider):
    """Any sender that follows the specification. A secret of bare base64 is read as if it began
    with `whsec_`, as the specification's own libraries do."""

    name = "standard"
    title = "Standard Webhooks"

    tolerance_seconds: Tolerance = 300
    namespace: Namespace = "standard"
    header_prefix: Literal["webhook", "svix"] = Field(
        default="webhook",
        description="`svix` for senders whose three headers are named `svix-id` and so on.",
    )
    content_types: ContentTypes = ()

    @property
    def other_content_types(self) -> Sequence[str]:
        return self.content_types

    def check_secret(self, secret: str, *, pointer: str) -> None:
        check_key(_with_prefix(secret), pointer=pointer)

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        require_signed(
            self._with_specified_names(request.headers),
            request.body,
            secrets=[_with_prefix(secret) for secret in secrets],
            profiles=["standard-ed25519", "standard"],
            tolerance_seconds=self.tolerance_seconds,
            now=now,
        )

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        return usable_id(request.headers.only(f"{self.header_prefix}-id"))

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return the event type for the body's `type`, under `namespace`."""
        return event_type_from(self.namespace, member(payload, "type"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        headers = sign(
            Profile.STANDARD,
            keys=[signing_key(_with_prefix(secret))],
            message_id=f"msg_{unsigned.id}",
            timestamp=unsigned.timestamp,
            body=unsigned.body,
        )
        return {
            name.replace(_SPECIFIED_PREFIX, self.header_prefix, 1): value
            for name, value in headers.items()
        }

    def _with_specified_names(self, headers: RequestHeaders) -> RequestHeaders:
        """Return only the headers with `header_prefix`, under their names in the specification."""
        if self.header_prefix == _SPECIFIED_PREFIX:
            return headers
        prefix = f"{self.header_prefix}-"
        return RequestHeaders(
            (f"{_SPECIFIED_PREFIX}-{name[len(prefix) :]}", value)
            for name, value in headers.items()
            if name.lower().startswith(prefix)
        )


def _with_prefix(secret: str) -> str:
    bare = secret and not secret.startswith((PREFIX, PUBLIC_KEY_PREFIX))
    return PREFIX + secret if bare else secret
