"""GitHub signs the body alone, with an HMAC in X-Hub-Signature-256.

https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.hmac_check import (
    decode_signature,
    hmac_keys,
    hmac_signature,
    require_signature,
)
from hookfast.inbox.naming import event_name
from hookfast.inbox.provider import Provider, Unsigned, member, usable_id
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue

_STRONG = "X-Hub-Signature-256"
_WEAK = "X-Hub-Signature"


class GitHub(Provider):
    """Repository, organisation and app webhooks, as JSON or as a form with a JSON field."""

    name = "github"
    title = "GitHub"
    lets_choose_secret = True
    sends_forms = True
    json_field = "payload"
    suggested_keys: ClassVar = {
        "github.push.*": "[repository.full_name, ref, after]",
        "github.release.*": "[repository.full_name, release.tag_name, action]",
        "github.pull_request.*": (
            "[repository.full_name, pull_request.number, action, pull_request.updated_at]"
        ),
        "github.workflow_run.*": (
            "[repository.full_name, workflow_run.id, workflow_run.run_attempt, action]"
        ),
    }

    allow_sha1: bool = Field(
        default=False,
        description="Accept the SHA-1 of X-Hub-Signature from servers that send no SHA-256.",
    )

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        keys = hmac_keys(secrets)
        weak = request.headers.signing(_WEAK)
        strong = request.headers.signing(_STRONG)
        if strong is not None:
            # even when SHA-1 is allowed: a correct SHA-1 does not excuse a wrong SHA-256
            raw = decode_signature(strong, header=_STRONG, prefix="sha256=")
            require_signature([raw], keys, request.body)
        elif weak is None:
            request.headers.required(_STRONG)
        elif self.allow_sha1:
            raw = decode_signature(weak, header=_WEAK, prefix="sha1=", hash_name="sha1")
            require_signature([raw], keys, request.body, hash_name="sha1")
        else:
            raise RequestRejected(
                "signature_not_accepted",
                f"the only signature is {_WEAK} (SHA-1); send {_STRONG}, or set allow_sha1",
            )

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        return usable_id(request.headers.only("X-GitHub-Delivery"))

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return `github.<X-GitHub-Event>.<action>`, with the body's action or `received`."""
        event = request.headers.only("X-GitHub-Event")
        return event_name("github", event, member(payload, "action"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        return {_STRONG: f"sha256={hmac_signature(secret, unsigned.body)}"}
