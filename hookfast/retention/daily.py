"""What the daily upkeep and its activities say to each other. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WORKFLOW_TYPE: Final = "DailyWorkflow"
SCHEDULE_ID: Final = "hookfast-upkeep"
WORKFLOW_ID: Final = "upkeep"
"""Start of each run's workflow id; Temporal adds the time it was scheduled for."""


@dataclass(frozen=True, slots=True)
class DailyInput:
    """The workflow's input: there is nothing to choose."""


@dataclass(frozen=True, slots=True)
class Summarised:
    """The workflow's result: endpoints with dead letters, notices that it added."""

    endpoints: int = 0
    notices: int = 0
