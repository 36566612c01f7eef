"""`hookfast config`: the settings in force, with secrets masked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hookfast.cli import app, errors_as_sentences
from hookfast.cli.config import markdown
from hookfast.settings.settings import Settings, load_settings

_KEY = "hf_" + "k" * 40
_PAGE = Path(__file__).parents[3] / "docs/settings.md"


@pytest.fixture(autouse=True)
def _settings_of_this_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # no .env
    monkeypatch.setenv("HOOKFAST_OPERATOR_KEY", _KEY)
    monkeypatch.setenv("HOOKFAST_DATABASE_URL", "postgresql://hookfast:hunter2@db/hookfast")
    monkeypatch.setenv("HOOKFAST_SHUTDOWN_GRACE", "12.5")
    monkeypatch.setenv("HOOKFAST_ALLOWED_PRIVATE_NETWORKS", "127.0.0.0/8,10.0.0.0/8")
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()


def test_config_prints_every_setting_in_force_as_json() -> None:
    printed = CliRunner().invoke(app, ["config", "--json"])
    values = json.loads(printed.stdout)
    assert values.keys() == {f"HOOKFAST_{name.upper()}" for name in Settings.model_fields}
    assert values["HOOKFAST_PORT"] == 8080
    assert values["HOOKFAST_SHUTDOWN_GRACE"] == 12.5
    assert values["HOOKFAST_ALLOWED_PRIVATE_NETWORKS"] == "127.0.0.0/8,10.0.0.0/8"
    assert values["HOOKFAST_PUBLIC_URL"] is None


@pytest.mark.parametrize("options", [[], ["--json"], ["--markdown"]])
def test_config_never_prints_a_secret(options: list[str]) -> None:
    printed = CliRunner().invoke(app, ["config", *options])
    assert printed.exit_code == 0
    assert _KEY not in printed.stdout
    assert "hunter2" not in printed.stdout


def test_the_table_names_and_describes_every_setting() -> None:
    printed = CliRunner().invoke(app, ["config"], env={"COLUMNS": "200"})
    for name, field in Settings.model_fields.items():
        assert f"HOOKFAST_{name.upper()}" in printed.stdout
        assert field.description


def test_invalid_settings_are_named_without_their_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOOKFAST_OPERATOR_KEY", "short")
    monkeypatch.setenv("HOOKFAST_PORT", "ninety")
    monkeypatch.setattr("sys.argv", ["hookfast", "config"])
    with pytest.raises(SystemExit) as ended, errors_as_sentences():
        app()
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "HOOKFAST_OPERATOR_KEY: must be 'hf_' followed by" in said
    assert "HOOKFAST_PORT: " in said
    assert "short" not in said


def test_settings_page_is_current() -> None:
    assert f"{markdown()}\n" == _PAGE.read_text(), "run `make settings`"
