"""GitLab: a token in a header, or a Standard Webhooks signature, which then has to pass.

https://docs.gitlab.com/user/project/integrations/webhooks/
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from hookfast.inbox.hmac_check import keys_of, require_token
from hookfast.inbox.naming import event_name
from hookfast.inbox.options import Tolerance
from hookfast.inbox.provider import (
    Provider,
    Unsigned,
    invalid_secret,
    member,
    usable_id,
)
from hookfast.inbox.received import Received
from hookfast.inbox.receiver_check import check_key, require_signed
from hookfast.inbox.receiver_check import keys_of as signing_keys_of
from hookfast.inbox.refused import Refused
from hookfast.receiver.secret import PREFIX
from hookfast.signing.signature import Profile, secret_key, sign
from hookfast.strict_json.parser import JsonValue

_TOKEN = "X-Gitlab-Token"  # noqa: S105 - the name of a header
_SIGNATURE = "webhook-signature"
_PAST = {
    "approval": "approval_added",
    "close": "closed",
    "create": "created",
    "delete": "deleted",
    "merge": "merged",
    "open": "opened",
    "reopen": "reopened",
    "unapproval": "approval_removed",
    "update": "updated",
}
"""GitLab's actions that are no participles yet. `approval` is one person's, `approved` the whole
merge request's."""


class GitLab(Provider):
    """Project, group and system hooks.

    A secret that begins with `whsec_` is a signing token, any other a secret token. Where a source
    has a signing token, or a request is signed, the signature alone decides: a right token, which
    anybody who ever saw a request knows, excuses nothing.
    """

    name = "gitlab"
    lets_choose_secret = True
    suggested_keys: ClassVar = {
        "gitlab.push.*": "[project.path_with_namespace, ref, after]",
        "gitlab.tag_push.*": "[project.path_with_namespace, ref, after]",
        "gitlab.release.*": "[project.path_with_namespace, tag, action]",
        "gitlab.merge_request.*": (
            "[project.path_with_namespace, object_attributes.iid, object_attributes.action, "
            "object_attributes.state, object_attributes.updated_at]"
        ),
        "gitlab.pipeline.*": (
            "[project.path_with_namespace, object_attributes.id, object_attributes.status]"
        ),
    }

    tolerance_seconds: Tolerance = 300

    def check_secret(self, secret: str, *, pointer: str) -> None:
        if secret.startswith(PREFIX):
            check_key(secret, pointer=pointer)
            return
        super().check_secret(secret, pointer=pointer)
        if not secret.isascii():
            raise invalid_secret(pointer, "a secret token is sent in a header: ASCII only")

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        signing = [secret for secret in secrets if secret.startswith(PREFIX)]
        if signing or received.headers.signing(_SIGNATURE) is not None:
            if not signing:
                raise Refused(
                    "signature_not_accepted",
                    "GitLab signs these requests: give the source the signing token (whsec_…)",
                )
            require_signed(
                received.headers,
                received.body,
                keys=signing_keys_of(signing),
                profiles=["standard"],
                tolerance=timedelta(seconds=self.tolerance_seconds),
                now=now,
            )
            return
        require_token(received.headers.required(_TOKEN), keys_of(secrets))

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        only = received.headers.only
        own = only("webhook-id") or only("Idempotency-Key")
        if own is not None:
            return usable_id(own)
        # the same for everything one event set off, so that a hook called for the consequences of
        # another hook would pass for its repetition: with the body it does not
        shared = usable_id(only("X-Gitlab-Event-UUID"))
        return None if shared is None else usable_id(f"{shared}/{received.content_key}")

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """`gitlab.<object_kind>.<action>` of the body, an action in `_PAST` as a participle; the
        status where there is no action (pipelines, jobs, deployments), `received` without both."""
        kind = member(payload, "object_kind") or member(payload, "event_name")
        if not isinstance(kind, str):
            header = received.headers.only("X-Gitlab-Event") or ""
            kind = header.removesuffix(" Hook")
        verb = (
            member(payload, "object_attributes", "action")
            or member(payload, "action")
            or member(payload, "object_attributes", "status")
            or member(payload, "build_status")
            or member(payload, "status")
        )
        return event_name("gitlab", kind, _PAST.get(verb, verb) if isinstance(verb, str) else None)

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        ids = {"X-Gitlab-Event-UUID": unsigned.id, "Idempotency-Key": unsigned.id}
        if not secret.startswith(PREFIX):
            return ids | {_TOKEN: secret}
        return ids | sign(
            Profile.STANDARD,
            keys=[secret_key(secret)],
            message_id=unsigned.id,
            timestamp=unsigned.timestamp,
            body=unsigned.body,
        )
