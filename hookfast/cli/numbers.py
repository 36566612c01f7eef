"""Options whose value is a number, read in plain digits.

Typer reads them with Python, which also accepts `1_000`, `+1`, and the digits of other scripts.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import typer

_FORMS = {int: re.compile(r"-?[0-9]{1,18}"), float: re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")}
_Number = TypeVar("_Number", int, float)


def number_option(
    *names: str,
    kind: type[_Number],
    least: float,
    most: float | None = None,
    exclusive: bool = False,
    metavar: str = "N",
    **options: Any,
) -> Any:
    """Return a Typer option for a number of at least `least`, or `exclusive`: more than that, and
    at most `most`. The other arguments are those of `typer.Option`."""
    if exclusive:
        bound = f"more than {least:g}" + ("" if most is None else f" and at most {most:g}")
    else:
        bound = f"{least:g} or more" if most is None else f"{least:g} to {most:g}"

    def parse(text: _Number | str) -> _Number:
        if isinstance(text, str) and not _FORMS[kind].fullmatch(text):
            example = "10" if kind is int else "0.5"
            raise typer.BadParameter(f"it is not a number in plain digits, such as {example}")
        number = kind(text)
        is_low = number <= least if exclusive else number < least
        if is_low or (most is not None and number > most):
            raise typer.BadParameter(f"it must be {bound}")
        return number

    shown = None if exclusive else least  # help shows a lower bound as included
    return typer.Option(*names, parser=parse, metavar=metavar, min=shown, max=most, **options)
