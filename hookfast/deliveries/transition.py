"""The changes of a delivery's life that are no attempts and no end, by their names. Pure."""

from __future__ import annotations

from enum import StrEnum

from hookfast.deliveries.lane import Place
from hookfast.deliveries.life import Life, Phase, Resend


class Transition(StrEnum):
    """What happened to a delivery between two lives."""

    HELD = "held"  # or it is still held, for another reason
    RELEASED = "released"  # its circuit lets it go, or holds it no longer
    PAUSED = "paused"
    RESUMED = "resumed"
    LIMITED = "limited"  # its endpoint's limits gave it, or its resend, a later turn
    QUEUED = "queued"  # it waits in its lane again
    MOVED_UP = "moved_up"  # it is the head of its lane
    RESENT = "resent"  # a resend was requested


def transitions(before: Life, after: Life) -> list[Transition]:
    """Return what happened to a delivery, in a fixed order. Waiting longer for the same reason is
    no transition, so that a held or limited delivery that checks again has none."""
    was, now = before.phase, after.phase
    if now.ended:
        return []
    held, again = was is Phase.HELD, before.reason is not after.reason
    found = {
        Transition.RESENT: after.resend is not None and _asked_at(after) != _asked_at(before),
        Transition.PAUSED: now is Phase.PAUSED and was is not Phase.PAUSED,
        Transition.RESUMED: was is Phase.PAUSED and now is Phase.WAITING,
        Transition.HELD: now is Phase.HELD and (not held or again),
        Transition.RELEASED: held
        and ((after.released and not before.released) or now is Phase.WAITING),
        Transition.LIMITED: (now is Phase.LIMITED and was is not Phase.LIMITED)
        or (_has_turn(after.resend) and not _has_turn(before.resend)),
        Transition.QUEUED: after.place is Place.QUEUED and before.place is not Place.QUEUED,
        Transition.MOVED_UP: after.place is Place.HEAD and before.place is Place.QUEUED,
    }
    return [transition for transition, happened in found.items() if happened]


def _asked_at(life: Life) -> object:
    return life.resend and life.resend.asked_at


def _has_turn(resend: Resend | None) -> bool:
    return resend is not None and resend.not_before is not None
