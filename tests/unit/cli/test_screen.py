"""Printed tables and facts: complete, without control characters, and colourless in a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
from rich.cells import cell_len
from rich.console import Console

from hookfast.cli.remote import screen
from hookfast.cli.remote.screen import (
    Column,
    Columns,
    format_cell,
    print_facts,
    print_table,
    print_text,
    printable,
    shorten,
    truncate,
)

_ID = "dlv_" + "0123456789abcdef" * 2


_REASON = "a long reason that would not fit into twenty columns"
_URL = "https://hooks.example.com/production/billing/v2/" + "x" * 80
_ROW = {
    "id": _ID,
    "status": "retrying",
    "name": "Ünï 日本語 and a name of several words",
    "url": _URL,
    "created": "2026-11-22 10:06:25Z (68 min ago)",
    "reason": _REASON,
    "nothing": None,
}
_COLUMNS: Columns = {
    "id": Column(value="id", priority=0),
    "status": Column(value="status", priority=0),
    "name": Column(value="name", least=12),
    "url": Column(value="url", priority=2, least=16),
    "created": Column(value="created", priority=3, narrow=lambda row: row["created"][21:-1]),
    "reason": Column(value="reason", priority=4, least=20, wraps=True),
    "nothing": Column(value="nothing", priority=5),
}


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make standard output a terminal with so many columns."""

    def make(number: int) -> None:
        monkeypatch.setenv("COLUMNS", str(number))
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(screen, "Console", partial(Console, color_system=None))

    return make


def test_a_table_in_a_pipe_keeps_everything_and_has_no_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    print_table([_ROW], _COLUMNS, if_empty="")
    said = capsys.readouterr()
    assert [heading.strip() for heading in re.split("  +", said.out.splitlines()[0].strip())] == [
        *_COLUMNS
    ]
    for value in _ROW.values():
        assert value is None or value in said.out
    assert "\x1b" not in said.out
    assert said.err == ""


@pytest.mark.parametrize("number", [80, 100, 120, 160])
def test_a_table_fits_its_terminal_and_cuts_neither_ids_nor_statuses(
    capsys: pytest.CaptureFixture[str], columns: Callable[[int], None], number: int
) -> None:
    columns(number)
    print_table([_ROW], _COLUMNS, if_empty="")
    said = capsys.readouterr()
    assert max(cell_len(line) for line in said.out.splitlines()) <= number
    assert f"{_ID}  retrying" in said.out
    shown = [name for name in _COLUMNS if name in said.out.splitlines()[0]]
    left_out = [name for name in _COLUMNS if name not in shown and name != "nothing"]
    assert said.err == (
        f"Left out for width: {', '.join(left_out)}. --wide shows every column.\n"
        if left_out
        else ""
    )


def test_columns_are_left_out_by_priority_and_not_because_they_are_last(
    capsys: pytest.CaptureFixture[str], columns: Callable[[int], None]
) -> None:
    columns(80)
    only = {name: _COLUMNS[name] for name in ("id", "created", "status", "name")}
    only["created"] = Column(value="created", priority=2)
    print_table([_ROW], only, if_empty="")
    assert capsys.readouterr().out.split()[:3] == ["id", "status", "name"]


def test_a_terminal_narrower_than_an_id_still_shows_it_whole(
    capsys: pytest.CaptureFixture[str], columns: Callable[[int], None]
) -> None:
    columns(20)
    print_table([_ROW], _COLUMNS, if_empty="")
    assert f"{_ID}  retrying" in capsys.readouterr().out


def test_wide_shows_a_terminal_what_a_pipe_gets(
    capsys: pytest.CaptureFixture[str],
    columns: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    print_table([_ROW], _COLUMNS, if_empty="")
    piped = capsys.readouterr()
    columns(60)
    print_table([_ROW], _COLUMNS, if_empty="", whole=True)
    assert capsys.readouterr() == piped


@pytest.mark.parametrize(
    ("text", "cells", "short"),
    [
        ("order.invoice.paid", 18, "order.invoice.paid"),
        ("order.invoice.paid", 11, "order….paid"),
        ("a name of several words", 10, "a name of…"),
        ("日本語の会社名", 7, "日本…名"),
        ("日本語 の会社名", 7, "日本語…"),
    ],
)
def test_a_word_loses_its_middle_and_a_text_its_end(text: str, cells: int, short: str) -> None:
    assert shorten(text, cells) == short
    assert cell_len(short) <= cells


def test_facts_are_wrapped_between_words_and_no_word_is_broken(
    capsys: pytest.CaptureFixture[str], columns: Callable[[int], None]
) -> None:
    columns(40)
    print_facts({"url": _URL, "endpoint": f"Billing ({_ID})", "reason": _REASON})
    assert capsys.readouterr().out.splitlines() == [
        f"url       {_URL}",
        "endpoint  Billing",
        f"          ({_ID})",
        "reason    a long reason that would not",
        "          fit into twenty columns",
    ]


def test_a_body_is_folded_on_a_terminal_and_cannot_steer_it(
    capsys: pytest.CaptureFixture[str], columns: Callable[[int], None]
) -> None:
    body = "<p>\n\tone two\x1b[2J three\r\n" + "x" * 45
    print_text(body)
    assert capsys.readouterr().out == f"  <p>\n      one two�[2J three\n  {'x' * 45}\n"
    columns(20)
    print_text(body)
    assert capsys.readouterr().out.splitlines() == [
        "  <p>",
        "      one two�[2J",
        "  three",
        *("  " + "x" * 18,) * 2,
        "  " + "x" * 9,
    ]


def test_empty_table_prints_a_note_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table([], {"id": "id"}, if_empty="There is nothing.")
    assert capsys.readouterr() == ("", "There is nothing.\n")


def test_what_receivers_wrote_cannot_steer_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_facts({"last error": "\x1b[2J\x9b31mred\u202e [bold]loud[/bold]\nnext"})
    said = capsys.readouterr().out
    assert "�[2J�31mred� [bold]loud[/bold] next" in said


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        ("", "–"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0, "0"),
        (2.5, "2.5"),
        (["a", "b"], "a, b"),
        ([], "–"),
        ("dead", "dead"),
    ],
)
def test_a_value_is_shown_as_people_write_it(value: object, text: str) -> None:
    assert format_cell(value).plain == text


def test_a_fact_that_is_not_known_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"a": 1, "b": None})
    assert capsys.readouterr().out.split() == ["a", "1"]


def test_long_text_is_cut_with_a_sign() -> None:
    assert truncate("x" * 10, 5) == "xxxx…"
    assert truncate("x" * 5, 5) == "xxxxx"
    assert truncate(None) is None


def test_plain_text_is_one_line() -> None:
    assert printable("a\r\n\tb\u00a0c") == "a b c"
