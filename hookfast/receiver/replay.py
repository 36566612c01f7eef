"""The replay guard accepts each signed message only once.

The timestamp makes a captured request useless after the tolerance; the guard makes it useless
immediately. Hookfast's own retries pass: each attempt has a new signature, with its own time (and
nonce).

`hook` and `rsa` sign only time and body. Two deliveries of the same bytes in the same second (one
event to two subscriptions of an endpoint, a body received twice and forwarded `raw`) are the same
signed message: the second is rejected with 503, and passes at its next attempt. Only the message id
could distinguish them, which an attacker can change as well. The `standard` profiles sign it.
"""

from __future__ import annotations

from datetime import timedelta

from .errors import Misconfigured, Replayed
from .store import Fresh, IdempotencyStore
from .verifier import Verified

_CLOCK_SLACK = timedelta(minutes=1)  # between the machines that share a store


class ReplayGuard:
    """Remembers accepted messages in `store` while their timestamp is within the tolerance.

    Use it with a verifier that accepts exactly one profile, which signs a time: a request with
    several signatures could be replayed with each of them alone. The guard's claims are never
    finished, so a bounded store does not forget them early.
    """

    def __init__(self, store: IdempotencyStore) -> None:
        self._store = store

    def admit(self, verified: Verified) -> Fresh:
        """Remember the message. Raises Replayed when it was accepted before."""
        if verified.fresh_for is None:
            raise Misconfigured(
                f"the profile {verified.profile} signs no time, which a replay guard needs"
            )
        begun = self._store.begin(
            f"replay:{verified.replay_key}", lease=verified.fresh_for + _CLOCK_SLACK
        )
        if not isinstance(begun, Fresh):
            raise Replayed(
                "this signed message was accepted before: by an attacker, by a proxy that repeats"
                " requests, or as the same body sent twice in a second under a profile that signs"
                " no id. Hookfast's next attempt has a new signature and will pass"
            )
        return begun

    def forget(self, admitted: Fresh) -> None:
        """Forget the message, which was not processed, so that it can be accepted again."""
        self._store.abandon(admitted)
