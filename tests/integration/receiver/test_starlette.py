"""The decorator for Starlette and FastAPI, with requests as Hookfast sends them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from hookfast.receiver import (
    Done,
    Fresh,
    Intake,
    MemoryStore,
    Misconfigured,
    Verifier,
    Webhook,
)
from hookfast.receiver.starlette import endpoint
from tests.integration.receiver import sent
from tests.support.quiet_app import quiet_app

pytestmark = pytest.mark.anyio


class Worker:
    """A handler of each type, and its received webhooks."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.intake = Intake(Verifier(sent.SECRET), store=self.store)
        self.webhooks: list[Webhook] = []
        self.outcome: Any = None

    async def slowly(self, webhook: Webhook) -> Any:
        """An async handler."""
        return self.at_once(webhook)

    def at_once(self, webhook: Webhook) -> Any:
        """A plain handler."""
        self.webhooks.append(webhook)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def worker() -> Worker:
    return Worker()


def client(app: Any) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://receiver")


def starlette(worker: Worker, handler: Any, **options: Any) -> httpx2.AsyncClient:
    route = endpoint(worker.intake, **options)(handler)
    return client(Starlette(routes=[Route("/", route, methods=["POST"])]))


def fastapi(worker: Worker, handler: Any) -> httpx2.AsyncClient:
    app = quiet_app()
    app.post("/")(endpoint(worker.intake)(handler))
    return client(app)


@pytest.mark.parametrize("framework", [starlette, fastapi])
@pytest.mark.parametrize("kind", ["slowly", "at_once"])
async def test_a_message_is_processed_once_and_gets_the_same_response_each_time(
    worker: Worker, framework: Any, kind: str
) -> None:
    worker.outcome = "booked"
    body = sent.body()
    async with framework(worker, getattr(worker, kind)) as http:
        first = await http.post("/", content=body, headers=sent.headers(body))
        again = await http.post("/", content=body, headers=sent.headers(body, attempt=2))
    assert (first.status_code, first.text) == (200, "booked")
    assert (again.status_code, again.text) == (200, "booked")
    assert [webhook.body for webhook in worker.webhooks] == [body]


async def test_a_forged_request_never_reaches_the_handler(worker: Worker) -> None:
    body = sent.body()
    async with starlette(worker, worker.slowly) as http:
        answer = await http.post("/", content=body + b" ", headers=sent.headers(body))
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "wrong_signature"
    assert worker.webhooks == []


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (RuntimeError("the database is away"), 500),
        (JSONResponse({"later": True}, status_code=503), 503),
    ],
)
async def test_work_that_is_not_done_is_done_when_the_message_comes_again(
    worker: Worker, outcome: Any, status: int
) -> None:
    body = sent.body()
    async with starlette(worker, worker.slowly) as http:
        worker.outcome = outcome
        first = await http.post("/", content=body, headers=sent.headers(body))
        worker.outcome = None
        second = await http.post("/", content=body, headers=sent.headers(body))
    assert (first.status_code, second.status_code) == (status, 204)
    assert len(worker.webhooks) == 2


@dataclass
class Model:
    """Stands for whatever JSON cannot express."""


@pytest.mark.parametrize(
    ("outcome", "first", "again"),
    [
        (None, (204, ""), (204, "")),
        ("", (204, ""), (204, "")),
        ("grüß", (200, "grüß"), (200, "grüß")),
        (b"booked", (200, "booked"), (200, "booked")),
        ({"ok": True}, (200, '{"ok":true}'), (204, "")),
        ([1, "a"], (200, '[1,"a"]'), (204, "")),
        (("later", 503), (200, '["later",503]'), (204, "")),  # as in FastAPI: a tuple is an array
        (42, (200, "42"), (204, "")),
        (JSONResponse({"ok": True}, status_code=201), (201, '{"ok":true}'), (204, "")),
        ("\ud800", (204, ""), (204, "")),
        ({"a": "\ud800"}, (204, ""), (204, "")),
        ({"a": math.nan}, (204, ""), (204, "")),
        ({1, 2}, (204, ""), (204, "")),
        (Model(), (204, ""), (204, "")),
        ((one for one in "ab"), (204, ""), (204, "")),
    ],
)
@pytest.mark.parametrize("framework", [starlette, fastapi])
async def test_work_is_done_once_whatever_its_handler_returns(
    worker: Worker,
    framework: Any,
    outcome: Any,
    first: tuple[int, str],
    again: tuple[int, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker.outcome = outcome
    body = sent.body()
    async with framework(worker, worker.slowly) as http:
        answers = [await http.post("/", content=body, headers=sent.headers(body)) for _ in "12"]
    assert [(one.status_code, one.text) for one in answers] == [first, again]
    assert len(worker.webhooks) == 1
    assert isinstance(worker.store.begin("dlv_1", lease=worker.intake._lease), Done)
    unusable = first == (204, "") and outcome not in (None, "")
    assert ("cannot be sent" in caplog.text) == unusable


async def test_response_that_breaks_while_it_is_sent_does_not_repeat_the_work(
    worker: Worker,
) -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise RuntimeError

    worker.outcome = StreamingResponse(broken())
    body = sent.body()
    async with starlette(worker, worker.slowly) as http:
        await http.post("/", content=body, headers=sent.headers(body))
        again = await http.post("/", content=body, headers=sent.headers(body))
    assert again.status_code == 204
    assert len(worker.webhooks) == 1


async def test_generator_is_rejected_because_calling_it_does_no_work(worker: Worker) -> None:
    async def handler(webhook: Webhook) -> AsyncIterator[str]:
        yield "booked"

    with pytest.raises(Misconfigured, match="yield"):
        endpoint(worker.intake)(handler)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1000, 1001])
async def test_a_body_over_the_limit_is_answered_413(worker: Worker, size: int) -> None:
    body = sent.body() + b" " * (size - len(sent.body()))

    async def chunks() -> AsyncIterator[bytes]:  # without Content-Length
        for start in range(0, size, 100):
            yield body[start : start + 100]

    async with starlette(worker, worker.slowly, max_body_bytes=1000) as http:
        answer = await http.post("/", content=chunks(), headers=sent.headers(body))
    assert answer.status_code == (204 if size == 1000 else 413)
    assert len(worker.webhooks) == int(size == 1000)


async def test_a_cancelled_request_leaves_no_claim(worker: Worker) -> None:
    body = sent.body()
    started = asyncio.Event()

    async def endless(webhook: Webhook) -> None:
        started.set()
        await anyio.sleep_forever()

    async with starlette(worker, endless) as http:
        request = asyncio.create_task(http.post("/", content=body, headers=sent.headers(body)))
        await started.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    begun = worker.store.begin("dlv_1", lease=worker.intake._lease)
    assert isinstance(begun, Fresh)


async def test_fastapi_names_the_route_after_its_handler(worker: Worker) -> None:
    app = quiet_app()
    app.post("/")(endpoint(worker.intake)(worker.slowly))
    operation = app.openapi()["paths"]["/"]["post"]
    assert operation["operationId"].startswith("slowly")
    assert "parameters" not in operation
