"""A request to a lean route gets the same answer, log line and metric from the layer, which calls
the route itself, as it would get through FastAPI."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError
from starlette.routing import Router
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from api.access import request_metrics
from hookfast.errors import Unavailable
from tests.support.api_client import OPERATOR_KEY, key_client_maker

pytestmark = pytest.mark.anyio

TYPE = "lean.route.called"
EVENT = '{"type":"lean.route.called","data":{"n":1.50},"tenant_id":"TENANT"}'
BATCH = f'{{"events":[{EVENT},{{"type":"lean.route.unknown","data":1}},7]}}'
JSON = ("Content-Type", "application/json")
_DIFFERS = re.compile(r'"id":"evt_[0-9a-f]{32}"|"created_at":"[^"]*"|"instance":"[^"]*"')


@dataclass(frozen=True)
class Case:
    """A request. TENANT and WAY in it are replaced by the tenant's id and the way it takes."""

    status: int
    body: str | bytes = EVENT
    path: str = "/v1/events"
    method: str = "POST"
    headers: tuple[tuple[str, str | bytes], ...] = (JSON,)
    key: str | None = "operator"
    by_layer: bool = field(default=True)
    """Whether the layer calls a lean route for it."""


CASES = {
    "event": Case(202),
    "event that is repeated": Case(202, headers=(JSON, ("Idempotency-Key", "same"))),
    "event with a key": Case(202, headers=(JSON, ("Idempotency-Key", "way-WAY"))),
    "other event with a used key": Case(
        409, EVENT.replace("1.50", "2"), headers=(JSON, ("Idempotency-Key", "same"))
    ),
    "traced event": Case(
        202, headers=(JSON, ("traceparent", "00-" + "a" * 32 + "-" + "b" * 16 + "-01"))
    ),
    "two traces": Case(202, headers=(JSON, ("traceparent", "a"), ("traceparent", "b"))),
    "event of a tenant's key": Case(202, key="tenant"),
    "event of an emitting key": Case(202, key="emit"),
    "batch": Case(202, BATCH, "/v1/events/batch"),
    "batch with a key": Case(
        202, BATCH, "/v1/events/batch", headers=(JSON, ("Idempotency-Key", "batch-WAY"))
    ),
    "empty batch": Case(422, '{"events":[]}', "/v1/events/batch"),
    "batch that is an array": Case(422, "[]", "/v1/events/batch"),
    "no key": Case(401, key=None),
    "unknown key": Case(401, key="hf_" + "0" * 40),
    "no bearer": Case(401, headers=(JSON, ("Authorization", "Basic x")), key=None),
    "key that may only read": Case(403, key="tenant:read"),
    "other tenant": Case(404, EVENT.replace("TENANT", "tnt_" + "0" * 32), key="tenant"),
    "unknown parameter": Case(422, path="/v1/events?limit=1"),
    "parameter that is empty": Case(422, path="/v1/events?limit="),
    "parameter without a name": Case(202, path="/v1/events?"),
    "unknown parameter without a key": Case(401, path="/v1/events?limit=1", key=None),
    "invalid Idempotency-Key": Case(
        422, headers=(JSON, ("Idempotency-Key", "a b")), by_layer=False
    ),
    "invalid Idempotency-Key without a key": Case(
        401, headers=(JSON, ("Idempotency-Key", "a b")), key=None, by_layer=False
    ),
    "empty Idempotency-Key": Case(422, headers=(JSON, ("Idempotency-Key", "")), by_layer=False),
    "two Idempotency-Keys": Case(
        400, headers=(JSON, ("Idempotency-Key", "a"), ("Idempotency-Key", "a"))
    ),
    "two Hosts": Case(400, headers=(JSON, ("Host", "a"), ("Host", "b"))),
    "text": Case(415, headers=(("Content-Type", "text/plain"),)),
    "other charset": Case(415, headers=(("Content-Type", "application/json; charset=latin-1"),)),
    "JSON of a kind": Case(202, headers=(("Content-Type", "application/vnd.x+json"),)),
    "compressed": Case(415, headers=(JSON, ("Content-Encoding", "gzip"))),
    "empty body": Case(422, ""),
    "no JSON": Case(422, '{"type":'),
    "not UTF-8": Case(422, b'"\xff"'),
    "member twice": Case(422, '{"type":"a.b.c","type":"a.b.c","data":1}'),
    "nested too deeply": Case(422, '{"data":' + "[" * 90 + "]" * 90 + "}"),
    "not an object": Case(422, "[]"),
    "no members": Case(422, "{}"),
    "unknown member": Case(422, EVENT.replace("tenant_id", "tenant")),
    "unknown type": Case(422, EVENT.replace("called", "unknown")),
    "reserved type": Case(422, EVENT.replace(TYPE, "hookfast.endpoint.disabled")),
    "too large": Case(413, "x" * 300_000),
    "larger than a short body": Case(202, EVENT.replace("1.50", '"' + "x" * 20_000 + '"')),
    "GET": Case(200, "", method="GET", by_layer=False),
    "HEAD": Case(200, "", method="HEAD", by_layer=False),
    "OPTIONS": Case(405, "", method="OPTIONS", by_layer=False),
    "PUT": Case(405, method="PUT", by_layer=False),
    "PUT without a key": Case(405, method="PUT", key=None, by_layer=False),
    "GET of a batch": Case(404, "", "/v1/events/batch", method="GET", by_layer=False),
    "DELETE of a batch": Case(405, "", "/v1/events/batch", method="DELETE", by_layer=False),
    "trailing slash": Case(404, path="/v1/events/", by_layer=False),
    "escaped path": Case(202, path="/v1/%65vents"),
}


class Compared:
    """Sends each request twice, through FastAPI and not."""

    def __init__(self, app: FastAPI, keys: dict[str, str], tenant: str) -> None:
        self._app = app
        self._keys = keys
        self._tenant = tenant

    async def through_fastapi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have FastAPI take the request as it does where it writes a span for it."""
        scope["fastapi.telemetry"] = None
        await self._app(scope, receive, send)

    async def results(self, case: Case) -> list[tuple[Any, ...]]:
        """Return the answer, the log lines and the measured labels of each way."""
        ways = {"direct": self._app, "fastapi": self.through_fastapi}
        return [await self._result(way, app, case) for way, app in ways.items()]

    async def _result(self, way: str, app: Any, case: Case) -> tuple[Any, ...]:
        headers = [
            (name, value.replace("WAY", way) if isinstance(value, str) else value)
            for name, value in (*case.headers, ("X-Request-Id", "mine"))
        ]
        if case.key is not None:
            headers.append(("Authorization", f"Bearer {self._keys.get(case.key, case.key)}"))
        body = case.body
        if isinstance(body, str):
            body = body.replace("TENANT", self._tenant).encode()
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        with pytest.MonkeyPatch.context() as patch, capture_logs() as lines:
            measured: list[dict[str, str]] = []
            record = type(request_metrics.instruments.HTTP_REQUESTS)

            def note(_: object, seconds: float, **labels: str) -> None:
                measured.append(labels)

            patch.setattr(record, "record", note)
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://hookfast.test"
            ) as client:
                answer = await client.request(case.method, case.path, content=body, headers=headers)
        shown = [
            {name: value for name, value in line.items() if name in _SHOWN}
            for line in lines
            if line["event"].startswith("A request")
        ]
        return (
            answer.status_code,
            sorted(answer.headers.multi_items()),
            _DIFFERS.sub("…", answer.text),
            shown,
            measured,
        )


_SHOWN = ("event", "method", "route", "status_code", "client", "key_id", "tenant_id", "log_level")


@pytest.fixture
async def compared(
    common_app: FastAPI, common_client: httpx2.AsyncClient, common_tenant: str
) -> Compared:
    answer = await common_client.put(f"/event-types/{TYPE}", json={})
    assert answer.status_code in (200, 201)
    keys = {"operator": OPERATOR_KEY}
    for scope in ("tenant", "tenant:read", "emit"):
        make = key_client_maker(common_app, common_client)
        async with make(common_tenant, scope=scope) as client:
            keys[scope] = client.headers["authorization"].removeprefix("Bearer ")
    return Compared(common_app, keys, common_tenant)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what comes to FastAPI's router."""
    counted: Counter[str] = Counter()
    original = Router.__call__

    async def call(self: Router, scope: Scope, receive: Receive, send: Send) -> None:
        counted["fastapi"] += 1
        await original(self, scope, receive, send)

    monkeypatch.setattr(Router, "__call__", call)
    return counted


@pytest.mark.parametrize("name", CASES)
async def test_both_ways_answer_log_and_measure_the_same(
    compared: Compared, calls: Counter[str], name: str
) -> None:
    case = CASES[name]
    if "used key" in name or "repeated" in name:  # the first request with this key
        await compared.results(CASES["event that is repeated"])
        calls.clear()
    direct, by_fastapi = await compared.results(case)
    assert direct == by_fastapi
    assert direct[0] == case.status, direct
    assert len(direct[3]) == len(direct[4]) == 1, direct
    reached = case.status not in (400, 413) and "compressed" not in name
    assert calls["fastapi"] == reached * (1 if case.by_layer else 2)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OperationalError("INSERT", {}, OSError("away")), 503),
        (Unavailable("Too much.", retry_after=7), 503),
        (RuntimeError("s3cret"), 500),
    ],
)
async def test_both_ways_report_errors_the_same(
    compared: Compared,
    common_app: FastAPI,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(common_app.state.context.emitter), "emit", fail)
    direct, by_fastapi = await compared.results(CASES["event"])
    assert direct == by_fastapi
    assert direct[0] == status
    assert "s3cret" not in direct[2]


async def test_both_ways_raise_an_unforeseen_error_for_the_server_to_log(
    compared: Compared, common_app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("s3cret")

    monkeypatch.setattr(type(common_app.state.context.emitter), "emit", fail)
    for app in (common_app, compared.through_fastapi):
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://x.test") as client:
            with pytest.raises(RuntimeError, match="s3cret"):
                await client.post(
                    "/v1/events",
                    content=EVENT.replace("TENANT", compared._tenant),
                    headers=[JSON, ("Authorization", f"Bearer {OPERATOR_KEY}")],
                )
