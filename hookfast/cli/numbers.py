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
    metavar: str = "N",
    **options: Any,
) -> Any:
    """Return a Typer option for a number of at least `least` and at most `most`. The other
    arguments are those of `typer.Option`."""

    def parse(text: _Number | str) -> _Number:
        if isinstance(text, str) and not _FORMS[kind].fullmatch(text):
            example = "10" if kind is int else "0.5"
            raise typer.BadParameter(f"it is not a number in plain digits, such as {example}")
        number = kind(text)
        if number < least or (most is not None and number > most):
            bound = f"{least:g} to {most:g}" if most is not None else f"{least:g} or more"
            raise typer.BadParameter(f"it must be {bound}")
        return number

    return typer.Option(*names, parser=parse, metavar=metavar, min=least, max=most, **options)
