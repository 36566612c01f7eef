"""Numbers in options are read in plain digits."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from hookfast.cli.numbers import number_option

_app = typer.Typer()


@_app.command()
def _show(
    limit: Annotated[int, number_option(kind=int, least=1, most=200)] = 50,
    wait: Annotated[float, number_option(kind=float, least=0)] = 30,
    rate: Annotated[float, number_option(kind=float, least=0, most=9, exclusive=True)] = 1,
    pace: Annotated[float, number_option(kind=float, least=0, exclusive=True)] = 1,
) -> None:
    typer.echo(f"{limit} {wait:g}")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], "50 30"),
        (["--limit", "1", "--wait", "0"], "1 0"),
        (["--limit", "200", "--wait", "0.25"], "200 0.25"),
        (["--limit", "007"], "7 30"),
    ],
)
def test_plain_digits_are_read(arguments: list[str], shown: str) -> None:
    assert CliRunner().invoke(_app, arguments).output.strip() == shown


@pytest.mark.parametrize(
    "text", ["1_0", " 10", "10 ", "+10", "\u0661\u0660", "1e1", "0x1", "9" * 19]
)
@pytest.mark.parametrize("option", ["--limit", "--wait"])
def test_other_spellings_are_refused(option: str, text: str) -> None:
    answer = CliRunner().invoke(_app, [option, text])
    assert answer.exit_code == 2
    assert "plain digits" in answer.output


@pytest.mark.parametrize(
    ("arguments", "bound"),
    [
        (["--limit", "0"], "1 to 200"),
        (["--limit", "201"], "1 to 200"),
        (["--limit", "-1"], "1 to 200"),
        (["--wait", "-0.5"], "0 or more"),
        (["--rate", "0"], "more than 0 and at most 9"),
        (["--rate", "9.1"], "more than 0 and at most 9"),
        (["--pace", "0.0"], "more than 0"),
    ],
)
def test_numbers_outside_the_bounds_are_refused(arguments: list[str], bound: str) -> None:
    answer = CliRunner().invoke(_app, arguments)
    assert answer.exit_code == 2
    assert f"it must be {bound}" in answer.output


def test_help_does_not_offer_a_bound_that_is_refused() -> None:
    shown = CliRunner().invoke(_app, ["--help"], env={"COLUMNS": "200"}).output
    assert "[1<=x<=200]" in shown
    assert "[x<=9]" in shown
    assert "[0<=x<=9]" not in shown
