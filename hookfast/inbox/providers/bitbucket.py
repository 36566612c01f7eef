"""Bitbucket, Cloud and Data Center: X-Hub-Signature with SHA-256 over the body.

https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/ and
https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hookfast.inbox.body_hmac import BodyHmac
from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.naming import event_type_from
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue


class Bitbucket(BodyHmac):
    """Repository, project and workspace webhooks. The method before the signature has to be sha256:
    GitHub's header of the same name holds a SHA-1."""

    name = "bitbucket"
    lets_choose_secret = True
    signature_header = "X-Hub-Signature"
    prefix = "sha256="
    delivery_headers = ("X-Request-UUID", "X-Request-Id")  # Cloud, Data Center
    id_headers = frozenset({"X-Request-Id"})  # Data Center's; Cloud's is kept whoever sends it
    suggested_keys: ClassVar = {
        "bitbucket.repo.push": (
            "[repository.full_name, push.changes[-1].new.name, push.changes[-1].new.target.hash]"
        ),
        "bitbucket.pullrequest.*": (
            "[repository.full_name, pullrequest.id, pullrequest.state, pullrequest.updated_on]"
        ),
    }

    def require_signed(self, request: InboundRequest, header: str, keys: Sequence[bytes]) -> None:
        method, separator, _ = request.headers.required(header).partition("=")
        if separator and method in ("sha1", "md5"):
            raise RequestRejected(
                "signature_not_accepted", f"only {method} came in {header}; sha256= is accepted"
            )
        super().require_signed(request, header, keys)

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """X-Event-Key: `pullrequest:comment_created` is `bitbucket.pullrequest.comment_created`,
        Data Center's `pr:reviewer:updated` is `bitbucket.pr_reviewer.updated`."""
        return event_type_from("bitbucket", request.headers.only("X-Event-Key"))
