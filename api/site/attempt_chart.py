"""The bars of attempts over time, by their answers, with their legend. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from api.site import charts
from api.site.charts import Chart
from api.site.formatting import number


class AttemptClass(StrEnum):
    """What an attempt resulted in, as coarse as a chart can show it."""

    SUCCESS = "success"
    CLIENT_ERROR = "4xx"
    SERVER_ERROR = "5xx"
    TIMEOUT = "timeout"
    OTHER = "other"  # no answer for another reason, or a status such as a redirect

    @classmethod
    def of(cls, answer: str) -> AttemptClass:
        """Return the class of an answer by which attempts are counted."""
        return next((one for one in cls if one == answer), cls.OTHER)


_SERIES: Final[dict[AttemptClass, tuple[str, str]]] = {
    AttemptClass.SUCCESS: ("good", "success"),
    AttemptClass.CLIENT_ERROR: ("client", "4xx"),
    AttemptClass.SERVER_ERROR: ("server", "5xx"),
    AttemptClass.TIMEOUT: ("timeout", "timeout"),
    AttemptClass.OTHER: ("other", "other failure"),
}
"""The colour of each class of answers, and its name, in the order of the bars' parts."""

Counts = Mapping[AttemptClass, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStep:
    """The attempts that began in a step, which begins at `start`."""

    start: datetime
    counts: Counts

    @property
    def total(self) -> int:
        """The number of its attempts."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """A line of the legend: a series' answer, colour and name, and the sum of its values."""

    answer: AttemptClass
    series: str
    name: str
    total: int


def classified(answers: Mapping[str, int]) -> Counter[AttemptClass]:
    """Return the numbers of attempts of each class, by those of each answer."""
    counts: Counter[AttemptClass] = Counter()
    for answer, counted in answers.items():
        counts[AttemptClass.of(answer)] += counted
    return counts


def legend_of(whole: Counts) -> list[Legend]:
    """Return the legend of a chart with these sums."""
    return [
        Legend(answer=answer, series=series, name=name, total=whole.get(answer, 0))
        for answer, (series, name) in _SERIES.items()
    ]


def attempt_chart(steps: Sequence[AttemptStep], *, moments: Sequence[str], **options: Any) -> Chart:
    """Draw a bar for each step, which begins at a moment in words. The `options` are those of
    `charts.stacked_bars`."""
    return charts.stacked_bars(
        [
            [(series, step.counts.get(answer, 0)) for answer, (series, _) in _SERIES.items()]
            for step in steps
        ],
        tooltips=[
            f"{moment}: {_in_words(step)}" for moment, step in zip(moments, steps, strict=True)
        ],
        **options,
    )


def _in_words(step: AttemptStep) -> str:
    """Return a step's attempts by class, such as `3 attempts: 2 success, 1 timeout`."""
    if not (total := step.total):
        return "no attempts"
    parts = [
        f"{number(step.counts[answer])} {name}"
        for answer, (_, name) in _SERIES.items()
        if step.counts.get(answer)
    ]
    return f"{number(total)} {'attempt' if total == 1 else 'attempts'}: {', '.join(parts)}"
