"""Tests of a site's forms of settings."""

from __future__ import annotations

import pytest

from api.site.endpoint_fields import settings_form
from hookfast.resources.setting import Dashboard, Portal, Words


@pytest.mark.parametrize(
    ("site", "pointer", "label"),
    [
        (Dashboard, "/description", "Name"),
        (Dashboard, "/timeout_seconds", "Timeout in seconds"),
        (Portal, "/rate_limit_per_second", "Messages per second"),
        (Dashboard, "/circuit/failure_threshold", "Failures in a row that open it"),
        (Dashboard, "/circuit/probe_delays_seconds/0", "Seconds before each probe, entry 1"),
        (Dashboard, "/circuit", "Circuit"),
        (Dashboard, "/owner_emails/1", "Owner emails, entry 2"),
        (Dashboard, "/headers/Host", "Custom headers, Host"),
        (Dashboard, "/encryption/alg", "Encryption, alg"),
        (Dashboard, "/events/0", "/events/0"),
        (Dashboard, "", ""),
    ],
)
def test_error_names_its_input_as_the_form_does(
    site: type[Words], pointer: str, label: str
) -> None:
    assert settings_form(site).label(pointer) == label
