"""Options that are declared once and used by several commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from hookfast.cli.remote.commands import command


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paging:
    limit: Annotated[int, typer.Option(min=1)] = 50
    tag: Annotated[list[str] | None, typer.Option()] = None


_app = typer.Typer()


@command(_app, "list")
def _list(
    paging: _Paging, name: str, loud: Annotated[bool, typer.Option("--loud")] = False
) -> None:
    """List them."""
    typer.echo(f"{name} {loud} {paging}")


@command(_app, "other")
def _other(paging: _Paging) -> None:
    typer.echo(paging.limit)


def _run(*arguments: str) -> str:
    return CliRunner().invoke(_app, arguments).output.strip()


def test_a_command_gets_its_own_parameters_and_the_group_as_one() -> None:
    said = _run("list", "Ada", "--loud", "--limit", "3", "--tag", "a", "--tag", "b")
    assert said == "Ada True _Paging(limit=3, tag=['a', 'b'])"


def test_missing_options_have_their_defaults() -> None:
    assert _run("list", "Ada") == "Ada False _Paging(limit=50, tag=None)"
    assert _run("other") == "50"


def test_the_options_of_a_group_are_checked_and_helped_like_any() -> None:
    assert CliRunner().invoke(_app, ["other", "--limit", "0"]).exit_code == 2
    assert "List them." in _run("list", "--help")
    assert "--limit" in _run("list", "--help")
