"""Judges each row of a run from what callers, the receiver and the database say. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.chaos import checks
from bench.chaos.evidence import Fault, Request
from bench.chaos.rows import Rows
from bench.chaos.storm import WORKER_KILLED
from bench.cluster.traffic import Seen
from hookfast.deliveries.time_budget import LOCAL_STEP

_READ_LATE = 2.0
"""Seconds after a request was sent in which a busy receiver reads it."""


@dataclass(slots=True)
class Outcome:
    """The result of one row. `settled`: seconds from the end of its traffic and its fault until
    everything was delivered. The lists hold delivery ids, except `lost`, which also holds events.
    """

    name: str
    seen: Seen
    settled: float
    delivered: int = 0
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    """Delivered again because of a fault between the receiver's 2xx and its record, with it."""
    stuck: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """Whether nothing was lost, duplicated or stuck."""
        return not (self.lost or self.duplicated or self.stuck)


def judge(
    outcomes: Sequence[Outcome], rows: Rows, requests: Sequence[Request], faults: Sequence[Fault]
) -> None:
    """Fill in the outcomes."""
    row_of = {event: outcome for outcome in outcomes for event in outcome.seen.accepted}
    again = _delivered_again(requests)
    unseen = set(checks.delivered_unseen(requests, rows.statuses))
    for outcome in outcomes:
        outcome.lost += checks.missing(outcome.seen.accepted, rows.made)
    for key, row in rows.deliveries.items():
        # An event that no caller knows was stored twice: in the last row, as rows are in order.
        outcome = row_of.get(row["event_id"], outcomes[-1])
        if row["event_id"] not in row_of:
            outcome.duplicated.append(key)
        elif row["finished_at"] is None:
            outcome.stuck.append(key)
        elif row["status"] != "delivered" or key in unseen:
            outcome.lost.append(key)
        else:
            outcome.delivered += 1
        if key in again:
            causes = [cause_of(first, faults) for first in again[key]]
            if None in causes:
                outcome.duplicated.append(key)
            else:
                outcome.repeated.append(f"{key}: {causes[0]}")


def cause_of(first: Request, faults: Iterable[Fault]) -> str | None:
    """Return the fault for which this answered request could not be recorded: a worker was killed.
    Requests do not name their worker, so the kill of another one counts too. While PostgreSQL is
    away, a worker keeps the record."""
    sent, recorded_by = first.begun - _READ_LATE, first.ended + LOCAL_STEP.total_seconds()
    for fault in faults:
        if fault.kind == WORKER_KILLED and sent <= fault.begun <= recorded_by:
            return WORKER_KILLED
    return None


def _delivered_again(requests: Iterable[Request]) -> Mapping[str, list[Request]]:
    """Return the successful requests of each delivery that were followed by another one."""
    succeeded: dict[str, Request] = {}
    again: defaultdict[str, list[Request]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request.begun):
        if request.message_id in succeeded:
            again[request.message_id].append(succeeded[request.message_id])
        if request.succeeded:
            succeeded[request.message_id] = request
    return again
