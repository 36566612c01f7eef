"""The code of the guide docs/client.md, run as it is written."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from hookfast_client import Hookfast
from tests.docs.fenced import DOCS, blocks
from tests.support.api_client import OPERATOR_KEY
from tests.support.api_server import ApiServer

pytestmark = pytest.mark.anyio

_TYPE = "order.refund.created"
_SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}}


async def test_the_guide_works_as_it_is_written(
    served: ApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOOKFAST_URL", served.url)
    monkeypatch.setenv("HOOKFAST_API_KEY", OPERATOR_KEY)
    with Hookfast(served.url, OPERATOR_KEY) as hookfast:
        tenant = await asyncio.to_thread(hookfast.tenants.create, name="Acme")
        await asyncio.to_thread(hookfast.event_types.put, _TYPE, schema=_SCHEMA)
    monkeypatch.setenv("TENANT", tenant["id"])
    # without workers a job does not end
    monkeypatch.setattr("hookfast_client.sync.jobs.Jobs.wait", _ended)
    names: dict[str, Any] = {}
    for block in blocks(DOCS / "client.md"):
        if block.language == "python":
            await asyncio.to_thread(exec, compile(block.text, str(block), "exec"), names)
    for name in ("hookfast", "patient"):
        names[name].close()
    out = capsys.readouterr().out
    for words in ("2000 accepted, 0 rejected", "/data/amount ", "0 dead letters", "0 of 0\ndone"):
        assert words in out, words
    assert "https://example.com/webhooks" in out


def _ended(jobs: Any, job_id: str, *, timeout: float, on_progress: Any) -> dict[str, Any]:
    job = {**jobs.get(job_id), "status": "done"}
    on_progress(job)
    return job


async def test_a_mock_transport_answers_without_a_server() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(202, json={"id": "evt_1", "path": request.url.path})

    with httpx2.Client(transport=httpx2.MockTransport(handler)) as http:
        hookfast = Hookfast("https://hooks.example.com", "hf_key", http_client=http)
        event = hookfast.events.emit(_TYPE, 1)
    assert (event["id"], event["replayed"]) == ("evt_1", False)
