"""The POST that `trigger` makes: what cannot be sent is said without its headers."""

from __future__ import annotations

import pytest

from hookfast.cli.remote.client import Unreachable
from hookfast.cli.remote.sample_request import post
from tests.e2e.service_process import free_ports


def test_a_header_that_cannot_be_sent_is_not_repeated() -> None:
    [port] = free_ports(1)
    with pytest.raises(Unreachable) as failed:
        post(f"http://127.0.0.1:{port}/hooks", headers={"X-Gitlab-Token": "a\nsecret"}, body=b"{}")
    assert "secret" not in failed.value.message
