"""The intake: from a raw request to work that is done once, for any framework.

intake = Intake(Verifier(secrets=[...], profiles=["standard"]), store=SqlStore(...))
opened = intake.open(headers, body)
if isinstance(opened, Answer):      # refused, done before, or being worked on
    return opened
try:
    work(opened.json())
except BaseException:
    intake.abandon(opened)          # it will be sent again
    raise
return intake.finish(opened)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from .errors import LeaseLost, Misconfigured, ReceiverError
from .headers import Headers
from .replay import ReplayGuard
from .store import Done, Fresh, IdempotencyStore, InProgress
from .verifier import Verified, Verifier

_log = logging.getLogger("hookfast.receiver")


@dataclass(frozen=True, slots=True)
class Answer:
    """What to answer the sender."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A verified message that is yours to work on."""

    verified: Verified
    body: bytes
    claim: Fresh | None
    """Your claim in the store, for `SqlStore.finish_in`; None without a store."""
    admitted: Fresh | None = None

    @property
    def message_id(self) -> str:
        return self.verified.message_id

    def json(self) -> Any:
        """The body as JSON: `id`, `type`, `created_at`, `tenant_id`, `data`."""
        return json.loads(self.body)


class Intake:
    """`store` makes a message that comes again be answered without being worked on again.

    `lease`: longer than the work ever takes (see `hookfast.receiver.store`). `keep`: how long to
    remember what is done; the default is as long as Hookfast can send a dead letter again.
    With `replay_guard` the verifier has to accept exactly one profile, not `body`.
    """

    def __init__(
        self,
        verifier: Verifier,
        *,
        store: IdempotencyStore | None = None,
        replay_guard: ReplayGuard | None = None,
        lease: timedelta = timedelta(minutes=5),
        keep: timedelta = timedelta(days=30),
    ) -> None:
        if replay_guard is not None and (
            len(verifier.profiles) != 1 or verifier.profiles == ("body",)
        ):
            raise Misconfigured(
                "a replay guard needs a verifier of exactly one profile that signs a time: a"
                " request with several signatures could be sent again with each alone"
            )
        self._verifier = verifier
        self._store = store
        self._guard = replay_guard
        self._lease = lease
        self._keep = keep

    def open(self, headers: Headers, body: bytes) -> Webhook | Answer:
        """The message to work on, or what to answer instead. May block on its stores."""
        try:
            verified = self._verifier.verify(headers, body)
            return self._begin(verified, body)
        except Misconfigured:
            raise
        except ReceiverError as error:
            return problem(error)

    def finish(self, webhook: Webhook, result: bytes = b"") -> Answer:
        """The work is done; `result`, a short text, is also the answer when the message comes
        again. Call it after the work is safe, never before."""
        if self._store is not None and webhook.claim is not None:
            try:
                self._store.finish(webhook.claim, result, keep=self._keep)
            except LeaseLost as error:
                # The work is done, so a 2xx is the truth; that another did it too is for people.
                _log.warning("%s (message %s)", error, webhook.message_id)
        return _done(result)

    def abandon(self, webhook: Webhook) -> None:
        """The work was not done: let the message come again."""
        if self._store is not None and webhook.claim is not None:
            self._store.abandon(webhook.claim)
        if self._guard is not None and webhook.admitted is not None:
            self._guard.forget(webhook.admitted)

    def _begin(self, verified: Verified, body: bytes) -> Webhook | Answer:
        claim: Fresh | None = None
        if self._store is not None:
            begun = self._store.begin(verified.idempotency_key, lease=self._lease)
            match begun:
                case Done(result):
                    return _done(result, again=True)
                case InProgress():
                    # 503 and not 409: some retry plans take a 4xx for the last word
                    return _problem(
                        503, "in_progress", detail="this message is being worked on: send it again"
                    )
                case Fresh():
                    claim = begun
        # After the store, so that a proxy's repetition of what is done gets its 2xx again.
        admitted: Fresh | None = None
        if self._guard is not None:
            try:
                admitted = self._guard.admit(verified)
            except BaseException:
                if self._store is not None and claim is not None:
                    self._store.abandon(claim)
                raise
        return Webhook(verified=verified, body=body, claim=claim, admitted=admitted)


def problem(error: ReceiverError) -> Answer:
    """The problem (RFC 9457) that tells the sender why. It reaches whoever sent the request: it
    says nothing that is not in the request or in this library's documentation."""
    return _problem(error.status, error.code, detail=error.message)


def _problem(status: int, code: str, *, detail: str) -> Answer:
    title = HTTPStatus(status).phrase
    document = {"title": title, "status": status, "code": code, "detail": detail}
    headers = {"Content-Type": "application/problem+json"}
    if status == 401:
        headers["WWW-Authenticate"] = "Webhook-Signature"  # RFC 9110 asks for one with every 401
    if status == 503:
        headers["Retry-After"] = "5"
    return Answer(status, headers, json.dumps(document, ensure_ascii=False).encode())


def _done(result: bytes, *, again: bool = False) -> Answer:
    headers = {"Content-Type": "text/plain; charset=utf-8"} if result else {}
    if again:
        headers["Idempotent-Replayed"] = "true"
    return Answer(200 if result else 204, headers, result)
