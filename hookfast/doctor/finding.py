"""The result of a check: a status, what it saw, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]
"""`fail`: deliveries are not sent, or can be lost. `warn`: it works, with a risk."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report. It has no secrets, because it is printed and pasted into
    tickets."""

    check: str
    status: Status
    saw: str
    todo: str | None = None


def ok(check: str, saw: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(check, "ok", saw)


def warn(check: str, saw: str, *, todo: str) -> Finding:
    """Return a finding of something that works, with a risk."""
    return Finding(check, "warn", saw, todo)


def fail(check: str, saw: str, *, todo: str) -> Finding:
    """Return a finding of something that does not work, or can lose acknowledged events."""
    return Finding(check, "fail", saw, todo)


def worst(findings: list[Finding]) -> Status:
    """Return the most severe status of these findings."""
    found = {finding.status for finding in findings}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"
