"""The replay guard: a signed message is accepted once, however often somebody sends it again.

The timestamp makes a captured request useless after the tolerance; the guard makes it useless at
once. Hookfast's own retries pass: each attempt is signed anew, with its own time (and nonce).

`hook` and `rsa` sign time and body alone. Two deliveries of the same bytes in the same second (one
event to two subscriptions of an endpoint, a body forwarded `raw` that came twice) are one signed
message: the second is refused with 503 and passes with its next attempt. No key could tell them
apart but the message id, which an attacker would change too. The `standard` profiles sign the id.
"""

from __future__ import annotations

from datetime import timedelta

from .errors import Misconfigured, Replayed
from .store import Fresh, IdempotencyStore
from .verifier import Verified

_CLOCK_SLACK = timedelta(minutes=1)  # between the machines that share a store


class ReplayGuard:
    """Remembers accepted messages in `store`, as long as their timestamp is within tolerance.

    For a verifier that accepts exactly one profile, and one that signs a time: a request that
    carries several signatures could be sent again with each alone. It remembers claims that are
    never finished, which a bounded store does not forget early.
    """

    def __init__(self, store: IdempotencyStore) -> None:
        self._store = store

    def admit(self, verified: Verified) -> Fresh:
        """Take note of the message. Raises Replayed when it was here before."""
        if verified.fresh_for is None:
            raise Misconfigured(f"the profile {verified.profile} signs no time to guard")
        begun = self._store.begin(
            f"replay:{verified.replay_key}", lease=verified.fresh_for + _CLOCK_SLACK
        )
        if not isinstance(begun, Fresh):
            raise Replayed(
                "what is signed here was accepted before. If it was not an attacker it was a proxy"
                " that repeats requests, or the same body sent twice in a second under a profile"
                " that signs no id: Hookfast's next attempt is signed anew and will pass"
            )
        return begun

    def forget(self, admitted: Fresh) -> None:
        """Let the message come again: nothing was done with it."""
        self._store.abandon(admitted)
