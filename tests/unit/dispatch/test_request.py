"""The request of a delivery that sends on a received one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hookfast.dispatch.request import outgoing_request

pytestmark = pytest.mark.anyio


async def _headers(encryption: Any) -> dict[str, str]:
    endpoint: Any = SimpleNamespace(
        profiles=(),
        keys=(),
        hash_name="sha256",
        headers={},
        ed25519=(),
        rsa=None,
        encryption=encryption,
        fault=None,
    )
    headers, _ = await outgoing_request(
        b"\x1f\x8b",
        endpoint=endpoint,
        message_id="dlv_1",
        event_type="a.b",
        attempt=1,
        timestamp=1,
        traceparent="",
        original=[("content-encoding", "gzip"), ("X-GitHub-Event", "push")],
    )
    return headers


async def test_content_encoding_is_sent_on_unless_the_body_is_encrypted() -> None:
    assert (await _headers(None))["content-encoding"] == "gzip"
    encrypted = await _headers(SimpleNamespace(encrypt=lambda body: b"a.b.c"))
    assert "content-encoding" not in encrypted
    assert encrypted["X-GitHub-Event"] == "push"
