"""Gitea and Forgejo: X-Gitea-Signature, X-Forgejo-Signature: an HMAC over the body, bare hex.

https://docs.gitea.com/usage/repository/webhooks and https://forgejo.org/docs/latest/user/webhooks/
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hookfast.inbox.hmac_check import decoded, keys_of, require_match, signature
from hookfast.inbox.naming import event_name
from hookfast.inbox.provider import Provider, Sample, Unsigned, member, usable_id
from hookfast.inbox.received import Received
from hookfast.strict_json.parser import JsonValue

_GITEA = "X-Gitea-Signature"
_FORGEJO = "X-Forgejo-Signature"


class Gitea(Provider):
    """Hooks of the type Gitea (or Forgejo) with the content type JSON. Not the form: there the
    signature is of the field's value, so a form would have to be parsed before it is verified.

    The X-Hub-Signature headers that both send for GitHub's receivers are not looked at.
    """

    name = "gitea"
    lets_choose_secret = True
    suggested_keys: ClassVar = {
        "gitea.push.*": "[repository.full_name, ref, after]",
        "gitea.release.*": "[repository.full_name, release.tag_name, action]",
        "gitea.pull_request.*": ("[repository.full_name, number, action, pull_request.updated_at]"),
    }

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        keys = keys_of(secrets)
        came = [name for name in (_FORGEJO, _GITEA) if name in received.headers] or [_GITEA]
        # Forgejo sends both: each has to fit, for neither is the weaker one
        for name in came:
            text = received.headers.required(name)
            require_match([decoded(text, header=name, encoding="hex")], keys, received.body)

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        return usable_id(_named(received, "Delivery"))

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """`gitea.<X-Gitea-Event>.<action>`, the action from the body; `received` without one."""
        return event_name("gitea", _named(received, "Event"), member(payload, "action"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        return {_GITEA: signature(secret, unsigned.body)}

    samples: ClassVar = {
        "push": Sample(
            headers={"X-Gitea-Event": "push", "X-Gitea-Delivery": "{id}"},
            payload={
                "ref": "refs/heads/main",
                "before": "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c",
                "after": "{sha}",
                "total_commits": 1,
                "commits": [{"id": "{sha}", "message": "Round prices once", "timestamp": "{time}"}],
                "repository": {"id": 15, "full_name": "acme/storefront"},
                "pusher": {"id": 7, "login": "ada"},
                "sender": {"id": 7, "login": "ada"},
            },
        ),
        "pull_request.opened": Sample(
            headers={"X-Gitea-Event": "pull_request", "X-Gitea-Delivery": "{id}"},
            payload={
                "action": "opened",
                "number": 17,
                "pull_request": {
                    "id": 990017,
                    "number": 17,
                    "title": "Round prices once",
                    "state": "open",
                    "merged": False,
                    "updated_at": "{time}",
                    "head": {"ref": "round-once", "sha": "{sha}"},
                    "base": {"ref": "main"},
                },
                "repository": {"id": 15, "full_name": "acme/storefront"},
                "sender": {"id": 7, "login": "ada"},
            },
        ),
    }


def _named(received: Received, what: str) -> str | None:
    only = received.headers.only
    return only(f"X-Gitea-{what}") or only(f"X-Forgejo-{what}")
