"""The intake verifies a request and makes its message be processed once, with any framework.

intake = Intake(Verifier(secrets=[...], profiles=["standard"]), store=SqlStore(...))
opened = intake.open(headers, body)
if isinstance(opened, Answer):      # rejected, already done, or in progress
    return opened
try:
    work(opened.json())
except BaseException:
    intake.abandon(opened)          # Hookfast will send it again
    raise
return intake.finish(opened)
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
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
    """The HTTP response for the sender."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A verified message for you to process."""

    verified: Verified
    body: bytes
    claim: Fresh | None
    """The claim in the store, for `SqlStore.finish_in`; None without a store."""
    admitted: Fresh | None = None

    @property
    def message_id(self) -> str:
        return self.verified.message_id

    def json(self) -> Any:
        """Parse the body as JSON: `id`, `type`, `created_at`, `tenant_id`, `data`. An integer of
        more digits than `int` reads (4,300 by default) becomes a Decimal."""
        return json.loads(self.body, parse_int=_integer)


class Intake:
    """Verifies requests. With a `store`, a repeated message is answered, but not processed again.

    `lease`: longer than the work ever takes (see `hookfast.receiver.store`). `keep`: how long to
    remember finished messages; by default as long as Hookfast can resend a dead letter. With a
    `replay_guard`, the verifier must accept exactly one profile other than `body`.
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
        """Return the message to process, or the response to send. May block on its stores."""
        try:
            verified = self._verifier.verify(headers, body)
            return self._begin(verified, body)
        except Misconfigured:
            raise
        except ReceiverError as error:
            return problem(error)

    def finish(self, webhook: Webhook, result: str | bytes | None = b"") -> Answer:
        """Record that the work is done. `result`, a short text, is also the response when the
        message is sent again. Call it only after the work is durable: whatever the result is, the
        message is done, and a result that cannot be sent is logged and left out."""
        body = _body(result, webhook)
        if self._store is not None and webhook.claim is not None:
            try:
                self._store.finish(webhook.claim, body, keep=self._keep)
            except LeaseLost as error:
                # The work is done, so 2xx is correct; that another worker did it too is logged.
                _log.warning("%s (message %s)", error, webhook.message_id)
        return _done(body)

    def abandon(self, webhook: Webhook) -> None:
        """Record that the work was not done, so that the message can be processed again."""
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
                    # 503 instead of 409, because some retry plans treat a 4xx as final
                    return _problem(
                        503, "in_progress", detail="this message is in progress: send it again"
                    )
                case Fresh():
                    claim = begun
        # After the store, so that a finished message that a proxy repeats gets its 2xx again.
        admitted: Fresh | None = None
        if self._guard is not None:
            try:
                admitted = self._guard.admit(verified)
            except BaseException:
                if self._store is not None and claim is not None:
                    self._store.abandon(claim)
                raise
        return Webhook(verified=verified, body=body, claim=claim, admitted=admitted)


def _integer(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:
        return Decimal(digits)


def _body(result: object, webhook: Webhook) -> bytes:
    """Return the result as the response's body. Other types than those of `finish` come from
    handlers, which nothing checks."""
    if isinstance(result, bytes):
        return result
    try:
        if result is None or isinstance(result, str):
            return (result or "").encode()
        raise TypeError("it is neither None, text nor bytes")
    except (TypeError, UnicodeEncodeError) as error:
        log_unsent(result, webhook, error)
    return b""


def log_unsent(result: object, webhook: Webhook, error: Exception) -> None:
    """Log that a handler's result cannot be sent, although its work is done."""
    _log.error(
        "A handler's result, a %s, cannot be sent: %s. The message %s is done, and is answered"
        " without it.",
        type(result).__name__,
        error,
        webhook.message_id,
    )


def reject_generator(handler: Callable[..., object]) -> None:
    """Raise Misconfigured for a generator function: calling it does none of its work."""
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise Misconfigured("a handler returns its result; this one has a `yield`")


def problem(error: ReceiverError) -> Answer:
    """Return the problem document (RFC 9457) for an error. Anyone may have sent the request, so it
    reveals only what is in the request or in this library's documentation."""
    return _problem(error.status, error.code, detail=error.message)


def _problem(status: int, code: str, *, detail: str) -> Answer:
    title = HTTPStatus(status).phrase
    document = {"title": title, "status": status, "code": code, "detail": detail}
    headers = {"Content-Type": "application/problem+json"}
    if status == 401:
        headers["WWW-Authenticate"] = "Webhook-Signature"  # RFC 9110 requires it with 401
    if status == 503:
        headers["Retry-After"] = "5"
    return Answer(status, headers, json.dumps(document, ensure_ascii=False).encode())


def _done(result: bytes, *, again: bool = False) -> Answer:
    headers = {"Content-Type": "text/plain; charset=utf-8"} if result else {}
    if again:
        headers["Idempotent-Replayed"] = "true"
    return Answer(200 if result else 204, headers, result)
