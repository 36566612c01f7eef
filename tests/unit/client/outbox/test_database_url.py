"""URLs of the outbox's database, with the parameters that people paste."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hookfast_client.outbox.database_url import DatabaseUrl, InvalidUrl

URL = "postgresql://app:s3cr3t@db.example.com/app"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (URL, URL),
        ("postgres://a@b/c", "postgres://a@b/c"),
        ("postgresql+psycopg://a@b/c", "postgresql://a@b/c"),
        (f"{URL}?", URL),
        (f"{URL}?sslmode=require", f"{URL}?sslmode=require"),
        (f"{URL}?ssl=true", f"{URL}?sslmode=require"),
        (f"{URL}?keepalives=1&keepalives_idle=30&application_name=x", URL),
        (f"{URL}?channel_binding=prefer&gssencmode=disable&client_encoding=UTF8", URL),
        (f"{URL}?connect_timeout=3&search_path=app", f"{URL}?search_path=app"),
        (f"{URL}?options=-c%20geqo%3Doff", f"{URL}?options=-c+geqo%3Doff"),
    ],
)
def test_parameters_of_libpq_do_not_become_settings_of_the_server(given: str, read: str) -> None:
    assert DatabaseUrl.parse(given).url == read


@pytest.mark.parametrize(("text", "seconds"), [("3", 3.0), ("0", None), ("", None)])
def test_connect_timeout_is_used(text: str, seconds: float | None) -> None:
    assert DatabaseUrl.parse(f"{URL}?connect_timeout={text}").connect_seconds == seconds


def test_system_authorities_verify_the_server_and_its_name() -> None:
    found = DatabaseUrl.parse(f"{URL}?sslrootcert=system")
    assert found.url == URL
    assert found.tls is not None
    assert (found.tls.check_hostname, found.tls.verify_mode) == (True, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("mysql://a@b/c", "PostgreSQL"),
        ("db.example.com", "PostgreSQL"),
        (f"{URL}?channel_binding=require", "channel_binding"),
        (f"{URL}?gssencmode=require", "gssencmode"),
        (f"{URL}?client_encoding=latin1", "client_encoding"),
        (f"{URL}?connect_timeout=1_0", "connect_timeout"),
        (f"{URL}?sslmode=require&sslrootcert=system", "sslmode"),
        (f"{URL}?sslmode=verify-full", "sslrootcert"),
        (f"{URL}?sslmode=verify-ca&sslrootcert=/nowhere", "sslrootcert"),
        (f"{URL}?sslmode=verify-ca&sslrootcert={__file__}", "sslrootcert"),
        (f"{URL}?sslkey=/nowhere", "sslkey"),
        (f"{URL}?sslmode", "parameter without a value"),
    ],
)
def test_what_cannot_work_is_refused_by_name_and_without_the_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, names: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InvalidUrl) as refused:
        DatabaseUrl.parse(given)
    assert names in str(refused.value)
    assert "s3cr3t" not in str(refused.value)
