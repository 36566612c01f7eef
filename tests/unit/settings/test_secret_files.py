"""Secrets from files: read, checked, and never quoted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hookfast.errors import Misconfigured
from hookfast.settings.secret_files import named_files, read, read_for
from hookfast.settings.settings import Settings

KEY = "hf_" + "k" * 40


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"HOOKFAST_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{KEY}\n")
    path.chmod(0o400)
    return path


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("operator_key", KEY),
        ("encryption_keys", "AAAA,BBBB"),
        ("database_url", "postgresql://u:p@db/hookfast"),
        ("smtp_url", "smtp://u:p@mail:587"),
    ],
)
def test_every_secret_can_come_from_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, secret: str
) -> None:
    (tmp_path / "secret").write_text(f" {secret}\n\n")
    monkeypatch.setenv(f"HOOKFAST_{name.upper()}_FILE", str(tmp_path / "secret"))
    assert getattr(Settings(), name).get_secret_value() == secret


def test_a_file_may_be_named_in_dotenv_and_the_environment_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: Path
) -> None:
    (tmp_path / ".env").write_text(f"HOOKFAST_OPERATOR_KEY_FILE={file}\n")
    assert _operator_key() == KEY
    monkeypatch.setenv("HOOKFAST_OPERATOR_KEY", "hf_" + "e" * 40)
    assert _operator_key() == "hf_" + "e" * 40


def test_a_file_in_the_environment_wins_over_dotenv(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: Path
) -> None:
    (tmp_path / ".env").write_text(f"HOOKFAST_OPERATOR_KEY=hf_{'e' * 40}\n")
    monkeypatch.setenv("HOOKFAST_OPERATOR_KEY_FILE", str(file))
    assert _operator_key() == KEY


def test_other_settings_cannot_come_from_files(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setenv("HOOKFAST_MAIL_FROM_FILE", str(file))
    assert Settings().mail_from == "hookfast@localhost"


def test_secret_given_twice_is_rejected(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setenv("HOOKFAST_OPERATOR_KEY", KEY)
    monkeypatch.setenv("HOOKFAST_OPERATOR_KEY_FILE", str(file))
    with pytest.raises(Misconfigured, match="both set; unset one") as caught:
        Settings()
    assert KEY not in str(caught.value)


def test_invalid_key_in_a_file_is_rejected_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("sk_0123456789")
    monkeypatch.setenv("HOOKFAST_OPERATOR_KEY_FILE", str(tmp_path / "secret"))
    with pytest.raises(ValueError, match="operator_key") as caught:
        Settings()
    assert "sk_0123456789" not in str(caught.value)


def test_unusable_secret_file_is_named_with_what_to_do(tmp_path: Path, file: Path) -> None:
    def why(path: Path) -> str:
        with pytest.raises(Misconfigured) as caught:
            read(path, variable="X_FILE")
        assert str(path) in caught.value.message
        assert KEY not in caught.value.message
        return caught.value.message

    assert "mount the secret there" in why(tmp_path / "missing")
    assert "is not a file" in why(tmp_path)  # Docker creates a folder for a missing source
    os.mkfifo(tmp_path / "fifo")
    assert "is not a file" in why(tmp_path / "fifo")  # without waiting for a writer
    file.chmod(0o620)
    assert "chmod go-w" in why(file)
    for content, word in ((b" \n", "is empty"), (b"\xff\xfe", "not text"), (b"x" * 70_000, "long")):
        path = tmp_path / word.replace(" ", "-")
        path.write_bytes(content)
        assert word in why(path)


def test_temporal_api_key_can_come_from_a_file(file: Path) -> None:
    variables = {"TEMPORAL_API_KEY_FILE": str(file), "HOOKFAST_SMTP_URL_FILE": ""}
    assert read_for("TEMPORAL_API_KEY", variables) == KEY
    assert read_for("TEMPORAL_API_KEY", {}) is None
    assert named_files(Settings, variables) == {"TEMPORAL_API_KEY_FILE": file}


def _operator_key() -> str:
    key = Settings().operator_key
    assert key is not None
    return key.get_secret_value()
