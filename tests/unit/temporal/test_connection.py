"""Connections to Temporal, as the environment describes them."""

from __future__ import annotations

import pytest

from hookfast.temporal.connection import connect

pytestmark = pytest.mark.anyio


async def test_other_variables_may_have_bytes_that_are_not_utf8(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOOKFAST_HOME", "/srv/\udcff")
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "hooks")
    client = await connect("off", lazy=True)
    assert client.namespace == "hooks"
