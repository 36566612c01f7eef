"""The answer to a delivery's newest attempt, and the filter by answers. Pure values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final

from hookfast.deliveries.outcome import Result
from hookfast.errors import InvalidInput

CLASSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx")
ANSWERS: Final = (
    f"A status code such as `503`, a class ({', '.join(f'`{one}`' for one in CLASSES)}), or one of "
    f"{', '.join(f'`{result}`' for result in Result)}."
)
"""The documentation of the filter `answer`."""
SUGGESTED_ANSWERS: Final = (
    *("5xx", "4xx", "3xx"),
    *(result.value for result in Result if result not in (Result.SUCCESS, Result.STATUS)),
    *("400", "401", "403", "404", "410", "429", "500", "502", "503", "504"),
    *("success", "status"),
)
"""Frequent values of the filter, for pages to suggest."""
_NAMES: Final[Mapping[Result, str]] = {
    Result.CREDENTIALS: "no access token",
    Result.DNS: "DNS failed",
    Result.ADDRESS: "address blocked",
    Result.REFUSED: "connection refused",
    Result.TLS: "TLS failed",
    Result.RESET: "connection reset",
    Result.PROTOCOL: "no HTTP response",
    Result.INTERNAL: "internal error",
}
_CODE: Final = re.compile(r"[1-9]\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The answer to the newest recorded attempt, which began at `attempt_at`."""

    attempt_at: datetime
    result: Result
    status_code: int | None
    duration_ms: float


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """Selects answers with this `result`, or with a status code from `lowest` to `highest`."""

    result: Result | None = None
    lowest: int = 0
    highest: int = 0

    @property
    def is_failure(self) -> bool:
        """Whether it selects no success."""
        if self.result is not None:
            return self.result is not Result.SUCCESS
        return self.highest < 200 or self.lowest >= 300


def answer_name(result: Result, status_code: int | None) -> str:
    """Return an answer in a few words: its status code, or what went wrong."""
    return _NAMES.get(result, result.value) if status_code is None else str(status_code)


def status_text(code: int) -> str:
    """Return a status code with its phrase, if it is a registered one: `404 Not Found`."""
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def has_telling_duration(result: Result) -> bool:
    """Whether the duration says something about the receiver: it answered, or took too long."""
    return result in (Result.SUCCESS, Result.STATUS, Result.TIMEOUT)


def parse_answer(text: str, *, pointer: str) -> AnswerFilter:
    """Return the filter that a text names: a status code, a class or a result. Raises InvalidInput
    for another text, which could never match."""
    name = text.strip().lower()
    if _CODE.fullmatch(name):
        return AnswerFilter(lowest=int(name), highest=int(name))
    if name in CLASSES:
        lowest = int(name[0]) * 100
        return AnswerFilter(lowest=lowest, highest=lowest + 99)
    try:
        return AnswerFilter(Result(name))
    except ValueError:
        raise InvalidInput.at(
            pointer,
            f"unknown answer; use a status code such as 503, a class ({', '.join(CLASSES)}), or "
            f"one of {', '.join(Result)}",
        ) from None
