"""Bitbucket, Cloud and Data Center: X-Hub-Signature with SHA-256 over the body.

https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/ and
https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hookfast.inbox.hmac_check import decoded, keys_of, require_match, signature
from hookfast.inbox.naming import folded
from hookfast.inbox.provider import Provider, Sample, Unsigned, usable_id
from hookfast.inbox.received import Received
from hookfast.inbox.refused import Refused
from hookfast.strict_json.parser import JsonValue

_HEADER = "X-Hub-Signature"
_PREFIX = "sha256="


class Bitbucket(Provider):
    """Repository, project and workspace webhooks. The method in front of the signature has to be
    sha256: GitHub's header of the same name holds a SHA-1."""

    name = "bitbucket"
    lets_choose_secret = True
    id_headers = frozenset({"X-Request-Id"})  # Data Center's; Cloud's is kept whoever sends it
    suggested_keys: ClassVar = {
        "bitbucket.repo.push": (
            "[repository.full_name, push.changes[-1].new.name, push.changes[-1].new.target.hash]"
        ),
        "bitbucket.pullrequest.*": (
            "[repository.full_name, pullrequest.id, pullrequest.state, pullrequest.updated_on]"
        ),
    }

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        keys = keys_of(secrets)
        text = received.headers.required(_HEADER)
        method, separator, rest = text.partition("=")
        if separator and method in ("sha1", "md5"):
            raise Refused(
                "signature_not_accepted", f"only {method} came in {_HEADER}; {_PREFIX} is accepted"
            )
        if not text.startswith(_PREFIX):
            raise Refused("signature_malformed", f"{_HEADER} does not begin with {_PREFIX}")
        require_match([decoded(rest, header=_HEADER, encoding="hex")], keys, received.body)

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        only = received.headers.only  # Cloud, Data Center
        return usable_id(only("X-Request-UUID") or only("X-Request-Id"))

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """X-Event-Key: `pullrequest:comment_created` is `bitbucket.pullrequest.comment_created`,
        Data Center's `pr:reviewer:updated` is `bitbucket.pr_reviewer.updated`."""
        return folded("bitbucket", received.headers.only("X-Event-Key"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        return {_HEADER: _PREFIX + signature(secret, unsigned.body)}

    samples: ClassVar = {
        "repo.push": Sample(
            headers={
                "X-Event-Key": "repo:push",
                "X-Request-UUID": "{id}",
                "X-Attempt-Number": "1",
            },
            payload={
                "actor": {"display_name": "Ada", "type": "user"},
                "repository": {"name": "storefront", "full_name": "acme/storefront"},
                "push": {
                    "changes": [
                        {
                            "created": False,
                            "closed": False,
                            "forced": False,
                            "old": {"type": "branch", "name": "main"},
                            "new": {
                                "type": "branch",
                                "name": "main",
                                "target": {"type": "commit", "hash": "{sha}", "date": "{time}"},
                            },
                        }
                    ]
                },
            },
        ),
        "pullrequest.created": Sample(
            headers={
                "X-Event-Key": "pullrequest:created",
                "X-Request-UUID": "{id}",
                "X-Attempt-Number": "1",
            },
            payload={
                "actor": {"display_name": "Ada", "type": "user"},
                "repository": {"name": "storefront", "full_name": "acme/storefront"},
                "pullrequest": {
                    "id": 17,
                    "title": "Round prices once",
                    "state": "OPEN",
                    "created_on": "{time}",
                    "updated_on": "{time}",
                    "source": {"branch": {"name": "round-once"}, "commit": {"hash": "{sha}"}},
                    "destination": {"branch": {"name": "main"}},
                },
            },
        ),
    }
