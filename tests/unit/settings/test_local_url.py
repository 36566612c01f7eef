"""The URL of a server, by the address that it listens on."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from hookfast.cli.api import warn_if_links_are_local
from hookfast.settings.local_url import listens_everywhere, local_url
from hookfast.settings.settings import Settings


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("localhost", "http://localhost:8080"),
        ("hooks.internal", "http://hooks.internal:8080"),
        ("::1", "http://[::1]:8080"),
        ("2001:db8::7", "http://[2001:db8::7]:8080"),
        ("0.0.0.0", "http://127.0.0.1:8080"),  # noqa: S104 - nothing listens here
        ("::", "http://[::1]:8080"),
        ("0:0:0:0:0:0:0:0", "http://[::1]:8080"),
        ("", "http://127.0.0.1:8080"),
    ],
)
def test_local_url_reaches_the_listening_address(host: str, url: str) -> None:
    assert local_url(host, 8080) == url
    assert Settings(host=host, port=8080).resolved_public_url == url


@pytest.mark.parametrize(
    "public_url", ["hooks.example.com", "ftp://hooks.example.com", "https:///"]
)
def test_public_url_must_be_a_url(public_url: str) -> None:
    with pytest.raises(ValidationError, match=r"must be a URL like https://hooks\.example\.com"):
        Settings(public_url=public_url)


def test_public_url_takes_precedence_over_the_listening_address() -> None:
    settings = Settings(host="::", public_url="https://hooks.example.com/")
    assert settings.resolved_public_url == "https://hooks.example.com"


@pytest.mark.parametrize(
    ("host", "everywhere"),
    [
        ("", True),
        ("0.0.0.0", True),  # noqa: S104 - nothing listens here
        ("::", True),
        ("::1", False),
        ("10.0.0.1", False),
        ("a", False),
    ],
)
def test_hosts_that_mean_every_address_are_recognised(host: str, everywhere: bool) -> None:
    assert listens_everywhere(host) is everywhere


def test_api_warns_at_start_if_only_this_machine_can_open_its_links() -> None:
    with capture_logs() as logged:
        warn_if_links_are_local(Settings(host="::", port=8080))
    assert [line["public_url"] for line in logged] == ["http://[::1]:8080"]
    assert "HOOKFAST_PUBLIC_URL" in logged[0]["event"]
    with capture_logs() as logged:
        warn_if_links_are_local(Settings(host="::", public_url="https://hooks.example.com"))
        warn_if_links_are_local(Settings(host="127.0.0.1"))
    assert logged == []
