"""GitLab sends a token in a header, or a Standard Webhooks signature, which then must be valid.

https://docs.gitlab.com/user/project/integrations/webhooks/
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.hmac_check import hmac_keys, require_token
from hookfast.inbox.naming import event_name
from hookfast.inbox.options import Tolerance
from hookfast.inbox.provider import Provider, Unsigned, invalid_secret, member, usable_id
from hookfast.inbox.receiver_check import check_key, require_signed
from hookfast.inbox.request import InboundRequest
from hookfast.receiver.secret import PREFIX
from hookfast.signing.signature import Profile, secret_key, sign
from hookfast.strict_json.parser import JsonValue

_TOKEN = "X-Gitlab-Token"  # noqa: S105 - the name of a header
_SIGNATURE = "webhook-signature"
_PAST_TENSE = {
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
"""GitLab's actions that are not in the past tense. `approval` is that of one person, `approved`
that of the whole merge request."""


class GitLab(Provider):
    """Project, group and system hooks.

    A secret that begins with `whsec_` is a signing token, any other a secret token. When the source
    has a signing token, or a request is signed, only the signature counts: anyone who has seen a
    request knows the token.
    """

    name = "gitlab"
    title = "GitLab"
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
            raise invalid_secret(
                pointer, "use only ASCII characters in a secret token: it is sent in a header"
            )

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        signing = [secret for secret in secrets if secret.startswith(PREFIX)]
        if signing or request.headers.signing(_SIGNATURE) is not None:
            if not signing:
                raise RequestRejected(
                    "signature_not_accepted",
                    "GitLab signs these requests: add the signing token (whsec_…) to the source",
                )
            require_signed(
                request.headers,
                request.body,
                secrets=signing,
                profiles=["standard"],
                tolerance_seconds=self.tolerance_seconds,
                now=now,
            )
            return
        require_token(request.headers.required(_TOKEN), hmac_keys(secrets))

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        only = request.headers.only
        # All hooks that one event triggers share the last id, even indirectly. As the body takes
        # part, a hook that another hook has triggered is not taken for its repetition.
        return usable_id(
            only("webhook-id") or only("Idempotency-Key") or only("X-Gitlab-Event-UUID")
        )

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return `gitlab.<object_kind>.<action>` from the body, the action in the past tense. It is
        the status when there is no action (pipelines, jobs, deployments), else `received`."""
        kind = member(payload, "object_kind") or member(payload, "event_name")
        if not isinstance(kind, str):
            header = request.headers.only("X-Gitlab-Event") or ""
            kind = header.removesuffix(" Hook")
        verb = (
            member(payload, "object_attributes", "action")
            or member(payload, "action")
            or member(payload, "object_attributes", "status")
            or member(payload, "build_status")
            or member(payload, "status")
        )
        return event_name(
            "gitlab", kind, _PAST_TENSE.get(verb, verb) if isinstance(verb, str) else None
        )

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
