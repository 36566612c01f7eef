"""Gitea and Forgejo: X-Gitea-Signature, X-Forgejo-Signature: an HMAC over the body, bare hex.

https://docs.gitea.com/usage/repository/webhooks and https://forgejo.org/docs/latest/user/webhooks/
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hookfast.inbox.body_hmac import BodyHmac
from hookfast.inbox.hmac_check import hmac_keys
from hookfast.inbox.naming import event_name
from hookfast.inbox.provider import member
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue

_FORGEJO = "X-Forgejo-Signature"


class Gitea(BodyHmac):
    """Hooks of the type Gitea (or Forgejo) with the content type JSON. Forms are not accepted:
    their signature covers the field's value, so a form would be parsed before it is verified.

    The X-Hub-Signature headers that both send for GitHub's receivers are ignored.
    """

    name = "gitea"
    lets_choose_secret = True
    signature_header = "X-Gitea-Signature"
    delivery_headers = ("X-Gitea-Delivery", "X-Forgejo-Delivery")
    suggested_keys: ClassVar = {
        "gitea.push.*": "[repository.full_name, ref, after]",
        "gitea.release.*": "[repository.full_name, release.tag_name, action]",
        "gitea.pull_request.*": "[repository.full_name, number, action, pull_request.updated_at]",
    }

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        # Forgejo sends both headers: each has to fit, so that neither is the weaker one
        came = [name for name in (_FORGEJO, self.signature_header) if name in request.headers]
        for name in came or [self.signature_header]:
            self.require_signed(request, name, hmac_keys(secrets))

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """`gitea.<X-Gitea-Event>.<action>`, the action from the body; `received` without one."""
        only = request.headers.only
        event = only("X-Gitea-Event") or only("X-Forgejo-Event")
        return event_name("gitea", event, member(payload, "action"))
