"""GitHub: X-Hub-Signature-256, an HMAC over the body and nothing else.

https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from hookfast.inbox.form import FORM, JSON, json_field
from hookfast.inbox.hmac_check import Hash, decoded, keys_of, require_match, signature
from hookfast.inbox.naming import event_name
from hookfast.inbox.provider import Provider, Unsigned, member, usable_id
from hookfast.inbox.received import Received
from hookfast.inbox.refused import Refused
from hookfast.strict_json.parser import JsonValue

_STRONG = "X-Hub-Signature-256"
_WEAK = "X-Hub-Signature"


class GitHub(Provider):
    """Repository, organisation and app webhooks, as JSON or as a form with the JSON in it."""

    name = "github"
    lets_choose_secret = True
    content_types = frozenset({JSON, FORM})
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

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        keys = keys_of(secrets)
        weak = received.headers.signing(_WEAK)
        strong = received.headers.signing(_STRONG)
        if strong is not None:
            # alone, even where SHA-1 is allowed: a wrong one is not excused by a right SHA-1
            _require(strong, keys, received.body, header=_STRONG, hash_name="sha256")
        elif weak is None:
            received.headers.required(_STRONG)
        elif self.allow_sha1:
            _require(weak, keys, received.body, header=_WEAK, hash_name="sha1")
        else:
            raise Refused(
                "signature_not_accepted",
                f"only {_WEAK} (SHA-1) came; have {_STRONG} sent, or set allow_sha1",
            )

    def payload(self, received: Received) -> JsonValue:
        if received.content_type == FORM:
            return json_field(received.body, "payload")
        return super().payload(received)

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        return usable_id(received.headers.only("X-GitHub-Delivery"))

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """`github.<X-GitHub-Event>.<action>`, the action from the body; `received` without one."""
        event = received.headers.only("X-GitHub-Event")
        return event_name("github", event, member(payload, "action"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        return {_STRONG: f"sha256={signature(secret, unsigned.body)}"}


def _require(
    text: str, keys: Sequence[bytes], body: bytes, *, header: str, hash_name: Hash
) -> None:
    prefix = f"{hash_name}="
    if not text.startswith(prefix):
        raise Refused("signature_malformed", f"{header} does not begin with {prefix}")
    raw = decoded(text.removeprefix(prefix), header=header, encoding="hex", hash_name=hash_name)
    require_match([raw], keys, body, hash_name=hash_name)
