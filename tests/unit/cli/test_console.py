"""Output of the commands of the service itself."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hookfast.cli import console


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_new_key_is_one_line_in_every_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """The key is shown only once, and could not be copied if a frame broke it in two."""
    printed = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=printed, width=width))
    key = "hf_" + "k-_9" * 10
    console.print_operator_key(key)
    assert key in printed.getvalue().splitlines()
