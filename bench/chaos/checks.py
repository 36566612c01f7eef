"""Checks that received requests agree with recorded attempts, actions and faults. Pure."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bench.chaos.evidence import DROPPED, Action, Fault, Request
from bench.chaos.storm import (
    DATABASE_FAULTS,
    RELAY_KILLED,
    TEMPORAL_AWAY,
    TEMPORAL_KILLED,
    WORKER_KILLED,
    WORKER_STOPPED,
)
from hookfast.deliveries.figures import Key, time_of_minute
from hookfast.deliveries.time_budget import LOCAL_STEP

UNEXPLAINED: Final = "unexplained"
CLOSED: Final = "connection closed by the receiver"
"""A request on a reused connection that ends without an answer is sent once more (ADR 23)."""

_UNRECORDED = LOCAL_STEP.total_seconds()
"""Seconds after its answer in which a request may still lack a record: its worker records it, or
hands that over to Temporal."""
_RECOVERY = 5.0
"""Seconds after a fault in which others still notice it, and connect again."""


def repeated(requests: Iterable[Request]) -> list[tuple[Request, Request]]:
    """Return each repeated request of an attempt, with the request that it repeats."""
    by_attempt: defaultdict[tuple[str, int], list[Request]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.begun):
        by_attempt[request.message_id, request.attempt].append(request)
    return [pair for made in by_attempt.values() for pair in itertools.pairwise(made)]


def cause_of(first: Request, faults: Sequence[Fault]) -> str:
    """Explain why `first` was repeated: by a fault of its worker before the record, or by a fault
    that could prevent the record or delay another worker with the same attempt."""
    recorded_by = first.ended + _UNRECORDED
    for fault in faults:
        if fault.process != first.sender:
            continue
        if fault.kind in (WORKER_KILLED, RELAY_KILLED) and fault.begun <= recorded_by:
            return fault.kind  # it ended with this fault, so it had sent its requests before
        if fault.kind == WORKER_STOPPED and fault.overlaps(first.begun - _RECOVERY, recorded_by):
            return fault.kind
    lasting = {
        fault.kind for fault in faults if fault.overlaps(first.begun - _RECOVERY, recorded_by)
    }
    for kind in (*DATABASE_FAULTS, TEMPORAL_KILLED, TEMPORAL_AWAY):
        if kind in lasting:
            return kind
    # A worker that is frozen in a transaction keeps its locks, and delays the other worker.
    for kind in (WORKER_STOPPED, WORKER_KILLED, RELAY_KILLED):
        if kind in lasting:
            return f"another {kind}"
    # A kept connection that the receiver closes without an answer is repeated within the attempt.
    return CLOSED if first.status == DROPPED else UNEXPLAINED


def after_cancel(
    requests: Iterable[Request], actions: Iterable[Action]
) -> list[tuple[Action, Request]]:
    """Return requests that began after a cancel was answered with 202, unless a resend was
    requested since. Deliveries whose resend got no answer are left out: it may have been committed
    later."""
    by_delivery: defaultdict[str, list[Action]] = defaultdict(list)
    for action in actions:
        by_delivery[action.delivery_id].append(action)
    found = []
    for request in requests:
        asked = by_delivery.get(request.message_id, ())
        if any(action.action == "resend" and action.status is None for action in asked):
            continue
        before = [
            action for action in asked if action.answered < request.begun and action.status == 202
        ]
        cancels = [action for action in before if action.action == "cancel"]
        if cancels and not _resent_between(asked, cancels[-1], request):
            found.append((cancels[-1], request))
    return found


def _resent_between(asked: Sequence[Action], cancel: Action, request: Request) -> bool:
    return any(
        action.action == "resend" and cancel.begun <= action.begun <= request.begun
        for action in asked
    )


def undelivered_successes(
    requests: Iterable[Request],
    actions: Iterable[Action],
    faults: Sequence[Fault],
    statuses: Mapping[str, str],
) -> tuple[Counter[str], list[Request]]:
    """Return the deliveries that got a 2xx and are not delivered, by status, and the last 2xx of
    the unexplained ones: without a cancel, a resend, a later request, or a fault that could prevent
    the record."""
    last: dict[str, Request] = {}
    succeeded: dict[str, Request] = {}
    for request in sorted(requests, key=lambda request: request.begun):
        last[request.message_id] = request
        if request.succeeded:
            succeeded[request.message_id] = request
    steered = {action.delivery_id for action in actions if action.action in ("cancel", "resend")}
    counted: Counter[str] = Counter()
    unaccounted = []
    for message_id, request in succeeded.items():
        status = statuses.get(message_id, "missing")
        if status == "delivered":
            continue
        counted[status] += 1
        if last[message_id] is not request or message_id in steered:
            continue
        if cause_of(request, faults) == UNEXPLAINED:
            unaccounted.append(request)
    return counted, unaccounted


def delivered_unseen(requests: Iterable[Request], statuses: Mapping[str, str]) -> list[str]:
    """Return deliveries that are `delivered` although the receiver never answered 2xx."""
    seen = {request.message_id for request in requests if request.succeeded}
    return [key for key, status in statuses.items() if status == "delivered" and key not in seen]


def out_of_order(
    requests: Iterable[Request],
    keys: Mapping[int, str],
    deliveries: Mapping[str, Mapping[str, object]],
) -> list[str]:
    """Return deliveries whose first request began too early: an earlier delivery of their lane was
    not yet delivered. `keys` has the ordering keys of the events by number, in the order of
    emitting. Deliveries that were sent again after their end are left out, and only delivered ones
    count as earlier: people cancel others, and a failing receiver makes them dead letters."""
    begun: dict[str, float] = {}
    delivered: dict[str, float] = {}
    lanes: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for request in sorted(requests, key=lambda request: request.begun):
        message_id = request.message_id
        row = deliveries.get(message_id)
        if request.number not in keys or row is None or row["round"]:
            continue
        lanes[request.path, keys[request.number]][message_id] = request.number
        begun.setdefault(message_id, request.begun)
        if request.succeeded and row["status"] == "delivered":
            delivered[message_id] = min(request.ended, delivered.get(message_id, request.ended))
    found = []
    for lane in lanes.values():
        earlier = 0.0
        for message_id in sorted(lane, key=lane.__getitem__):
            if begun[message_id] < earlier:
                found.append(message_id)
            earlier = max(earlier, delivered.get(message_id, 0.0))
    return found


def missing(accepted: Mapping[str, int], made: Mapping[str, int]) -> list[str]:
    """Return accepted events without all the deliveries that their answer promised."""
    return [event for event, promised in accepted.items() if made.get(event, 0) != promised]


def drift(
    differences: Mapping[Key, int], deliveries: Iterable[Mapping[str, object]]
) -> dict[str, int]:
    """Return the figures that disagree with the rows, and by how much they are too high.
    `differences` are those of `recount`, with ends: an endpoint's ends may be counted more often
    than its rows say by the number of times that its deliveries started again after an end."""
    rounds: Counter[str] = Counter()
    for row in deliveries:
        rounds[str(row["endpoint_id"])] += int(str(row["round"]))
    found: Counter[str] = Counter()
    more: Counter[str] = Counter()
    for key, number in differences.items():
        if number > 0 and key.kind.startswith("ended:"):
            if key.endpoint_id.startswith("ep_") and not key.event_type:
                more[key.endpoint_id] += number
            continue
        of_type = f" of {key.event_type}" if key.event_type else ""
        at = f" at {time_of_minute(key.at):%Y-%m-%d %H:%M}" if key.at else ""
        found[f"{key.kind}{of_type} of {key.endpoint_id}{at}"] += number
    for endpoint_id, number in more.items():
        if number > rounds[endpoint_id]:
            found[f"ends of {endpoint_id}"] += number - rounds[endpoint_id]
    return found
