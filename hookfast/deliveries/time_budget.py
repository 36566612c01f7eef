"""How the time of a step is shared out, so that a request, its record and the hand-over of a record
that fails fit into what Temporal grants. Pure numbers; a test adds them up.

    fast lane   request (at most FAST_LANE) + RECORD_SHARE + SLACK = LOCAL_STEP
                LOCAL_STEP <= HEARTBEAT_AT of a workflow task (WORKFLOW_TASK)
    regular     request (at most LONGEST_REQUEST) + RECORD_SHARE + SLACK <= REGULAR_STEP
    batch       WORKFLOW_TASK + request (at most FAST_LANE) + RECORD_SHARE + SLACK <= BATCH_HOLD

A local activity runs inside a workflow task. One that takes longer than 80 % of the task's timeout
has its worker ask for more time; one whose worker is too busy to ask is repeated, request and all.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

WORKFLOW_TASK: Final = timedelta(seconds=10)
"""Temporal's default timeout of a workflow task."""
HEARTBEAT_AT: Final = 0.8
"""Fraction of it after which Temporal's SDK asks for more time."""
HEARTBEAT: Final = timedelta(seconds=15)
"""So soon Temporal notices that a worker with a regular step has died, and has another do it."""
FAST_LANE: Final = timedelta(seconds=5)
"""Longest request in the fast lane."""
LONGEST_REQUEST: Final = timedelta(seconds=30)
RECORD_SHARE: Final = timedelta(seconds=2)
"""A record that cannot be committed within this is handed to the workflow."""
SLACK: Final = timedelta(seconds=1)
"""For what comes before the request, and for the hand-over. A step that has less left than the
request and its record may take does not send."""
LOCAL_STEP: Final = FAST_LANE + RECORD_SHARE + SLACK
BATCH_HOLD: Final = timedelta(seconds=20)
"""A batch's deliveries are its own for so long: if its worker dies, Temporal has another one make
the same batch after a workflow task's time."""
REGULAR_STEP: Final = timedelta(seconds=75)
"""More than it needs: a database that is away may come back before the request begins."""
RECORD_ACTIVITY: Final = timedelta(seconds=30)
"""An activity that does nothing but record; the database's own patience is below it."""
