"""Messages between the daily workflow and its activity. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hookfast.workflow_input import workflow_input

WORKFLOW_TYPE: Final = "DailyWorkflow"
SCHEDULE_ID: Final = "hookfast-upkeep"
WORKFLOW_ID: Final = "upkeep"
"""Start of each run's workflow id; Temporal adds the time it was scheduled for."""


@workflow_input
@dataclass(frozen=True, slots=True)
class DailyInput:
    """Input of the workflow. It has no options."""


@dataclass(frozen=True, slots=True)
class Summarised:
    """Result of the workflow: endpoints with dead letters, and notices that were added."""

    endpoints: int = 0
    notices: int = 0
