"""How a stored row requests a workflow. Pure; `hookfast.dispatch.workflow_starter` carries it out.

Circuits, owners' mail and jobs are rows first. In a row that needs its workflow,
`workflow_started_at` is NULL. The starter starts the workflow, or wakes it with a signal where it
runs, and sets `workflow_started_at` only then: after a crash in between, the row still requests it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

CONTROL_QUEUE: Final = "control"
"""Task queue of everything that steers deliveries: a flood of deliveries cannot hold it up."""
WAKE: Final = "wake"
"""Signal of all these workflows: the row has changed; read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRequest:
    """A workflow that a row asks for. `key` names the row to whoever found it; `argument` is the
    workflow's input, used only where no run is open; `summary` is what the Temporal UI shows."""

    key: Any
    workflow: str
    workflow_id: str
    argument: Any
    summary: str
