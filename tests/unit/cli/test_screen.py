"""Printed tables and facts: complete, without control characters, and colourless in a pipe."""

from __future__ import annotations

import pytest

from hookfast.cli.remote.screen import (
    format_cell,
    pluralize,
    print_facts,
    print_table,
    printable,
    truncate,
)

_ID = "dlv_" + "0123456789abcdef" * 2


def test_a_table_in_a_pipe_keeps_every_id_and_has_no_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    reason = "a long reason that would not fit into twenty columns"
    row = {"id": _ID, "status": "dead", "reason": reason}
    print_table([row], {name: name for name in row}, if_empty="", wide="reason")
    said = capsys.readouterr().out
    assert f"{_ID}  dead    {reason}" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("columns", [20, 50, 79, 200])
def test_a_narrow_terminal_cuts_nothing_of_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    created = "2026-11-22 10:06:25Z (68 min ago)"
    row = {"id": _ID, "name": "Ünï 日本語 and a name of several words", "created": created}
    columns = {"id": "id", "name": "name", "created": lambda row: row["created"]}
    print_table([row], columns, if_empty="", wide="name")
    said = capsys.readouterr().out
    assert _ID in said
    assert created in said
    for word in ("Ünï", "日本語", "several", "words"):
        assert word in said


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


def test_numbers_agree_with_their_nouns() -> None:
    assert pluralize(1, "delivery") == "1 delivery"
    assert pluralize(1234, "delivery") == "1,234 deliveries"
    assert pluralize(0, "event") == "0 events"
