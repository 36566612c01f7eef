"""The banner that `up` prints when it is ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookfast.supervisor.__main__ import banner
from hookfast.supervisor.service import Service


def test_no_address_and_no_path_is_cut_in_the_log_of_a_container(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal, its width is assumed to be 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    home = Path("/srv") / ("x" * 50) / "[production]" / ("y" * 50)
    running = Service(
        api_url="http://127.0.0.1:8080",
        temporal_address="a-namespace.a1b2c.tmprl.cloud:7233",
        temporal_namespace="a-namespace.a1b2c",
        temporal_ui_url=f"https://temporal.example.com/{'z' * 80}",
        missing=(),
    )
    print(banner(running, home=str(home), coloured=False))
    printed = capsys.readouterr().out
    for shown in (str(home), running.temporal_ui_url, running.temporal_address, "/docs"):
        assert shown is not None
        assert shown in printed
