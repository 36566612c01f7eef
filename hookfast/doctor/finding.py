"""What a check found: a status, what it saw, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]
"""`fail`: deliveries are not made, or can be lost. `warn`: it works and will hurt."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination. Holds no secret: it is printed, and pasted into tickets."""

    check: str
    status: Status
    saw: str
    todo: str | None = None


def ok(check: str, saw: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", saw)


def warn(check: str, saw: str, *, todo: str) -> Finding:
    """It works, with a risk."""
    return Finding(check, "warn", saw, todo)


def fail(check: str, saw: str, *, todo: str) -> Finding:
    """It does not work, or loses what it acknowledged."""
    return Finding(check, "fail", saw, todo)


def worst(findings: list[Finding]) -> Status:
    """The status of the whole."""
    found = {finding.status for finding in findings}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"
