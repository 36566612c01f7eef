"""A stored row's request for a workflow. Pure; `hookfast.dispatch.workflow_starter` fulfils it.

Circuits, owners' mail and jobs are rows first. A row that needs its workflow has NULL in
`workflow_started_at`. The starter starts the workflow, or wakes it with a signal if it runs, and
only then sets `workflow_started_at`: after a crash in between, the row still requests it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

CONTROL_QUEUE: Final = "control"
"""Task queue of circuits, jobs, mail and retention: a flood of deliveries cannot delay them."""
WAKE: Final = "wake"
"""Signal of all these workflows: the row has changed; read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRequest:
    """A workflow that a row requests. `key` identifies the row for the code that found it;
    `argument` is the workflow's input, used only if no run is open; `summary` is shown in the
    Temporal UI."""

    key: Any
    workflow: str
    workflow_id: str
    argument: Any
    summary: str
