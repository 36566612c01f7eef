"""The whole OpenAPI document under generated requests, right ones and wrong ones: none of them gets
an answer that the document does not promise, and none a 500."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from api.app import create_app
from api.authentication import ensure_operator_key
from hookfast.clock import utc_now
from hookfast.settings import Settings
from hookfast.storage.engine import Database
from tests.api_client import OPERATOR_KEY, Json

pytestmark = pytest.mark.anyio

EXAMPLES = 12  # for each operation and mode; the whole takes about 10 s on each database
RECEIVER = "http://127.0.0.1:9/hook"  # closed: no generated URL is ever called
FRAMING = {"connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"}

load_all_checks()
CONFORMANCE = CHECKS.get_by_names(
    [
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)


@pytest.fixture
async def base_url(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    """A real server, on a thread of its own and an empty database, with Temporal away."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    settings = Settings(
        home=tmp_path,
        database_url=database_url,
        operator_key=OPERATOR_KEY,
        allow_http=True,
        allow_unverified=True,
        allowed_private_networks="127.0.0.0/8",
    )
    async with Database(settings.resolved_database_url) as database:
        await ensure_operator_key(database, settings, clock=utc_now)
    server = uvicorn.Server(uvicorn.Config(create_app(settings), port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn offers no event for it
            await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await asyncio.to_thread(thread.join)


class Known:
    """Things that exist, so that generated requests do not all end at "not found"."""

    def __init__(self, base_url: str, session: requests.Session) -> None:
        self._url, self._session = f"{base_url}/v1", session
        tenant = self._make("POST", "/tenants", {"name": "Acme"})
        self._make("PUT", "/event-types/order.invoice.paid", {})
        endpoint = self._make(
            "POST",
            "/endpoints",
            {
                "tenant_id": tenant["id"],
                "url": RECEIVER,
                "events": ["**"],
                "verification": "none",
            },
        )
        subscription = self._make(
            "POST", "/subscriptions", {"endpoint_id": endpoint["id"], "events": ["**"]}
        )
        event = self._make(
            "POST",
            "/events",
            {"type": "order.invoice.paid", "tenant_id": tenant["id"], "data": {"amount": 1}},
        )
        [delivery, _] = self._make("GET", f"/events/{event['id']}/deliveries")["data"]
        key = self._make(
            "POST", f"/tenants/{tenant['id']}/api-keys", {"scope": "tenant", "name": "t"}
        )
        self.tenant_key: str = key["key"]
        self.values = {
            "tenant_id": tenant["id"],
            "endpoint_id": endpoint["id"],
            "subscription_id": subscription["id"],
            "event_id": event["id"],
            "delivery_id": delivery["id"],
            "key_id": key["id"],
            "name": "order.invoice.paid",
            "type": "order.invoice.paid",
            "event_type": "order.invoice.paid",
            "matches": "order.invoice.paid",
        }

    def _make(self, method: str, path: str, body: Json | None = None) -> Json:
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        answer = self._session.request(method, self._url + path, json=body, headers=headers)
        assert answer.ok, answer.text
        document: Json = answer.json()
        return document

    def put_into(self, case: Case, data: st.DataObject) -> None:
        """Name things that exist in some of the places that name things."""
        places: list[Any] = [case.path_parameters, case.query, case.body]
        if isinstance(case.body, dict) and isinstance(case.body.get("events"), list):
            places += case.body["events"]
        for place in places:
            if isinstance(place, dict):
                for name in place.keys() & self.values.keys():
                    if data.draw(st.booleans(), label=f"{name} exists"):
                        place[name] = self.values[name]


def _stay_here(case: Case) -> None:
    """Keep every URL that would be called on loopback, and leave the framing of the request to the
    client: what is no HTTP gets the server's own answer, which no document describes."""
    for name in [name for name in case.headers if name.lower() in FRAMING]:
        del case.headers[name]
    if isinstance(case.body, dict) and isinstance(case.body.get("url"), str):
        case.body["url"] = RECEIVER


@pytest.mark.timeout(300)  # a safety net; see EXAMPLES for what it takes
async def test_every_operation_answers_as_documented(base_url: str) -> None:
    await asyncio.to_thread(_try_every_operation, base_url)


def _try_every_operation(base_url: str) -> None:
    with requests.Session() as session:
        known = Known(base_url, session)
        document = session.get(f"{base_url}/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        operations = [result.ok() for result in schema.get_all_operations()]
        for operation in sorted(operations, key=lambda one: one.method == "delete"):
            for mode in GenerationMode:
                try:
                    _try(operation, mode, base_url=base_url, session=session, known=known)
                except Unsatisfiable:
                    assert mode is GenerationMode.NEGATIVE  # nothing about it can be wrong


def _try(
    operation: Any, mode: GenerationMode, *, base_url: str, session: requests.Session, known: Known
) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
    def run(case: Case, data: st.DataObject) -> None:
        known.put_into(case, data)
        _stay_here(case)
        keys = st.sampled_from([OPERATOR_KEY] * 4 + [known.tenant_key, "hf_" + "x" * 40])
        headers = {"Authorization": f"Bearer {data.draw(keys)}"}
        answer = case.call(base_url=base_url, session=session, headers=headers)
        # 503 is the right answer of what needs Temporal, which is away
        may_be_503 = (
            operation.label.startswith("POST /v1/deliveries/") or "readyz" in operation.label
        )
        assert answer.status_code < 500 or (answer.status_code == 503 and may_be_503), answer.text
        case.validate_response(answer, checks=CONFORMANCE)

    run()
