"""`hookfast alerts` prints the alert rules with the links of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from hookfast.cli import app
from hookfast.settings.settings import load_settings

_SETTINGS = {
    "HOOKFAST_RUNBOOK_URL": "https://docs.example.com/runbook/",
    "HOOKFAST_GRAFANA_URL": "https://grafana.example.com",
    "HOOKFAST_PUBLIC_URL": "https://hooks.example.com",
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # no `.env` of the repository
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()


def test_links_are_those_of_the_settings() -> None:
    printed = CliRunner().invoke(app, ["alerts"], env=_SETTINGS)
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert yaml.safe_load(printed.stdout)["groups"]
    assert "https://docs.example.com/runbook/#hookfastpastdue" in printed.stdout
    assert "https://hooks.example.com/dashboard/dead-letters" in printed.stdout


@pytest.mark.parametrize("name", _SETTINGS)
def test_missing_setting_is_named_apart_from_the_rules(name: str) -> None:
    printed = CliRunner().invoke(app, ["alerts"], env=_SETTINGS | {name: ""})
    assert printed.exit_code == 0
    (line,) = printed.stderr.splitlines()
    assert line.startswith(f"{name} is not set: ")
    assert line not in printed.stdout


def test_runbook_url_has_no_fragment_of_its_own() -> None:
    url = "https://docs.example.com/runbook/#alerts"
    printed = CliRunner().invoke(app, ["alerts"], env=_SETTINGS | {"HOOKFAST_RUNBOOK_URL": url})
    assert printed.exit_code == 1
    assert "HOOKFAST_RUNBOOK_URL" in str(printed.exception)
    assert printed.stdout == ""
