"""What `make bench` prints fits where there is no terminal, as in the log of a CI."""

from __future__ import annotations

import pytest

from bench.delivery import Side, _report


def test_no_number_of_the_table_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    cpu = {"temporal": 12.345, "worker": 10.0, "api": 0.5, "sink": 0.25, "load generator": 0.1}
    sides = [Side("(a) floor"), Side("(b) product"), Side("singles at 50/s")]
    for side in sides:
        side.add(2_000, 2_000 / 175.4, {name: spent * 2 for name, spent in cpu.items()})
    _report(sides, {"accept": [1.0, 2.0], "emit → sink": [10.0, 20.0]})
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert printed.count("175 (175–175)") == 3
    assert printed.count("12.35") + printed.count("12.34") == 3
    assert printed.count("23.20") + printed.count("23.19") == 3
