"""Settings: read from the environment, checked, and masked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from pydantic import ValidationError

from hookfast.settings.settings import Settings, load_settings

OPERATOR_KEY = "hf_" + "a" * 32


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No HOOKFAST_ variable and no `.env` file except those of the test."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"HOOKFAST_{name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()


def test_the_defaults_are_safe() -> None:
    settings = Settings()
    assert settings.host == "127.0.0.1"
    assert settings.allowed_private_networks == ()
    assert settings.denied_networks == ()
    assert (settings.allow_http, settings.allow_unverified) == (False, False)
    assert settings.operator_key is None
    assert settings.encryption_keys is None


def test_every_field_is_described() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("127.0.0.0/8", ["127.0.0.0/8"]),
        ("10.0.0.0/8, ::1/128 ,fd00::/8", ["10.0.0.0/8", "::1/128", "fd00::/8"]),
        ("192.168.1.7,", ["192.168.1.7/32"]),
        ("", []),
        (" , ", []),
    ],
)
def test_networks_are_a_comma_separated_list(
    monkeypatch: pytest.MonkeyPatch, text: str, networks: list[str]
) -> None:
    monkeypatch.setenv("HOOKFAST_ALLOWED_PRIVATE_NETWORKS", text)
    assert Settings().allowed_private_networks == tuple(map(ip_network, networks))


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("", ()),
        ("443", (range(443, 444),)),
        ("443, 8000-8999,", (range(443, 444), range(8000, 9000))),
        ("1-65535", (range(1, 65536),)),
    ],
)
def test_ports_are_a_comma_separated_list_of_ports_and_ranges(
    monkeypatch: pytest.MonkeyPatch, text: str, ranges: tuple[range, ...]
) -> None:
    monkeypatch.setenv("HOOKFAST_ALLOWED_PORTS", text)
    assert Settings().port_ranges == ranges


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALLOWED_PRIVATE_NETWORKS", "10.0.0.1/8"),  # ambiguous: host bits are set
        ("ALLOWED_PRIVATE_NETWORKS", "localhost"),
        ("ALLOWED_PRIVATE_NETWORKS", "10.0.0.0/33"),
        ("DENIED_NETWORKS", "10.0.0.0/33"),
        ("ALLOWED_PORTS", "https"),
        ("ALLOWED_PORTS", "0"),
        ("ALLOWED_PORTS", "65536"),
        ("ALLOWED_PORTS", "443-80"),
        ("ALLOWED_PORTS", "-80"),
        ("ALLOWED_PORTS", "80-"),
        ("OPERATOR_KEY", "hf_" + "a" * 31),
        ("OPERATOR_KEY", "sk_" + "a" * 32),
        ("OPERATOR_KEY", OPERATOR_KEY + "!"),
        ("OPERATOR_KEY", OPERATOR_KEY + "\n"),
        ("HOME", "~/hookfast"),
        ("HOME", "~"),
        ("PORT", "65536"),
        ("PORT", "-1"),
        ("PORT", "http"),
        ("ALLOW_HTTP", "perhaps"),
        ("MAX_EVENT_BYTES", "0"),
        ("MAX_EVENT_BYTES", "2000000"),
        ("RELAY_BATCH", "0"),
        ("LOG_LEVEL", "loud"),
        ("SHUTDOWN_GRACE", "0"),
        ("SHUTDOWN_GRACE", "-1"),
        ("SHUTDOWN_GRACE", "nan"),
        ("SHUTDOWN_GRACE", "inf"),
        ("SHUTDOWN_GRACE", "soon"),
        ("SHUTDOWN_GRACE", "4_0"),
        ("PORT", "8_080"),
        ("PORT", "+8080"),
        ("PORT", "٨٠٨٠"),
        ("MAX_EVENT_BYTES", "1_500_000"),
        ("MAX_ENDPOINTS_PER_TENANT", "1_0"),
        ("EVENT_TYPE_PARTS", "1_0"),
        ("JOB_RATE_PER_SECOND", "1_0.5"),
        ("KEY_RATE_PER_SECOND", "nan"),
    ],
)
def test_invalid_value_is_rejected_by_name_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"HOOKFAST_{name}", value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert name.lower() in str(caught.value)
    assert "input_value" not in str(caught.value)
    assert OPERATOR_KEY not in str(caught.value)


def test_an_operator_key_of_32_url_safe_characters_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOOKFAST_OPERATOR_KEY", "hf_" + "aZ09_-" * 6)
    key = Settings().operator_key
    assert key is not None
    assert key.get_secret_value() == "hf_" + "aZ09_-" * 6


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("0.5", 0.5), ("PT1M30S", 90), ("00:02:00", 120)]
)
def test_a_duration_is_in_seconds_or_iso_8601(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    monkeypatch.setenv("HOOKFAST_RELAY_LEASE", text)
    assert Settings().relay_lease == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("hooks", "must be one e-mail address"),
        ("Hooks h@example.com", "the part before the @"),
        ("a@b, c@d.example", "must be one e-mail address"),
        ("Acme, Inc. <hooks@example.com>", "in double quotes"),
        ("Hooks <hooks@example..com>", "the part after the @"),
    ],
)
def test_sender_that_is_not_one_address_is_refused_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch, text: str, advice: str
) -> None:
    monkeypatch.setenv("HOOKFAST_MAIL_FROM", text)
    with pytest.raises(ValidationError) as invalid:
        Settings()
    assert "mail_from" in str(invalid.value)
    assert advice in str(invalid.value)
    assert '"Acme, Inc." <hooks@example.com>' in str(invalid.value)


def test_secrets_are_masked_wherever_settings_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {
        "OPERATOR_KEY": "hf_" + "operator-secret" * 3,
        "ENCRYPTION_KEYS": "ZW5jcnlwdGlvbi1zZWNyZXQtMDEyMzQ1Njc4OTAxMjM=",
        "DATABASE_URL": "postgresql://user:database-secret@db/hookfast",
        "SMTP_URL": "smtp://user:smtp-secret@mail:587",
    }
    for name, value in hidden.items():
        monkeypatch.setenv(f"HOOKFAST_{name}", value)
    settings = Settings()
    shown = repr(settings) + str(settings) + settings.model_dump_json() + str(settings.model_dump())
    for value in hidden.values():
        assert value not in shown
    assert "secret" not in shown.replace("SecretStr", "")


def test_without_a_database_url_it_is_a_file_in_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOOKFAST_HOME", "here")
    assert Settings().resolved_database_url == f"sqlite:///{tmp_path}/here/hookfast.db"


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKFAST_PORT", "")
    assert Settings().port == 8080


def test_a_dotenv_file_is_read_and_the_environment_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("HOOKFAST_PORT=1111\nHOOKFAST_HOST=::1\nOTHER=1\n")
    monkeypatch.setenv("HOOKFAST_PORT", "2222")
    assert (Settings().port, Settings().host) == (2222, "::1")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1


def test_settings_are_read_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings()
    monkeypatch.setenv("HOOKFAST_PORT", "1111")
    assert load_settings() is settings
