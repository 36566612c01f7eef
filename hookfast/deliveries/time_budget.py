"""Time limits of a step: a request, its record and handing over a failed record fit into the time
that Temporal grants. A test adds them up.

    fast lane   request (at most FAST_LANE) + RECORD_SHARE + SLACK = LOCAL_STEP
                LOCAL_STEP <= HEARTBEAT_AT of a workflow task (WORKFLOW_TASK)
    regular     ROOM + request (at most LONGEST_REQUEST) + RECORD_SHARE + SLACK <= REGULAR_STEP
    batch       WORKFLOW_TASK + request (at most FAST_LANE) + RECORD_SHARE + SLACK <= BATCH_LEASE

A local activity runs inside a workflow task. One that takes longer than 80 % of the task's timeout
makes its worker ask for more time. If the worker is too busy to ask, the activity is repeated,
request included.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

WORKFLOW_TASK: Final = timedelta(seconds=10)
"""Temporal's default timeout of a workflow task."""
HEARTBEAT_AT: Final = 0.8
"""Fraction of a workflow task's timeout after which Temporal's SDK asks for more time."""
HEARTBEAT: Final = timedelta(seconds=15)
"""Temporal notices within this time that the worker of a regular step has died."""
FAST_LANE: Final = timedelta(seconds=5)
"""Longest request in the fast lane."""
LONGEST_REQUEST: Final = timedelta(seconds=30)
"""Longest request in the regular lane."""
ROOM: Final = timedelta(seconds=5)
"""An attempt in the regular lane waits at most this long for memory for its body. One in the fast
lane does not wait."""
RECORD_SHARE: Final = timedelta(seconds=2)
"""A record that cannot be committed within this time is handed to the workflow."""
SLACK: Final = timedelta(seconds=1)
"""Time for the work before the request, and for handing over a record. A step with less time left
than the request and its record may take does not send."""
QUICK: Final = timedelta(seconds=1)
"""A request that took less is quick: the next one to the same endpoint probably is, too."""
LOCAL_STEP: Final = FAST_LANE + RECORD_SHARE + SLACK
"""Timeout of a step in the fast lane."""
BATCH_LEASE: Final = timedelta(seconds=20)
"""How long deliveries belong to their batch. If its worker dies, Temporal runs the batch on another
worker after a workflow task's timeout."""
REGULAR_STEP: Final = timedelta(seconds=75)
"""Timeout of a regular step. It is generous, because a database that is away may come back before
the request begins."""
RECORD_ACTIVITY: Final = timedelta(seconds=30)
"""Timeout of an activity that only records. The database's own timeout is shorter."""


def is_for_fast_lane(
    timeout_seconds: float, last_duration_ms: float | None, *, longest: timedelta
) -> bool:
    """Whether a delivery's next attempt begins in the fast lane: its endpoint's timeout is at most
    `longest`, and its last attempt, if there was one, was quick. A slow attempt would
    occupy a workflow task and a slot that others need."""
    was_quick = last_duration_ms is None or last_duration_ms < QUICK.total_seconds() * 1000
    return was_quick and timeout_seconds <= longest.total_seconds()
