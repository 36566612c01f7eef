"""The whole OpenAPI document with generated requests, valid and invalid: every response is one that
the document describes, and none is a 500."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from hookfast.clock import rfc3339, utc_now
from hookfast.storage.database.engine import Database
from hookfast.storage.keys.new_keys import ensure_operator_key
from tests.e2e.service_process import eventually
from tests.integration.api.inbound import SECRET, signed
from tests.integration.api.shared.operations import DOCUMENT
from tests.support.api_client import OPERATOR_KEY, Json, borrowed_app, development_settings

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

FUZZ = int(os.environ.get("HOOKFAST_FUZZ", "0"))  # `make fuzz`; see tests/conftest.py
# for each operation and mode; `make slow` and `make fuzz` have time for more
EXAMPLES = FUZZ or max(2, settings().max_examples // 25)
RECEIVER = "http://127.0.0.1:4/hook"  # closed: no generated URL is ever called
_WAITS = {str(seconds) for seconds in range(1, 31)}
LONGEST_TARGET = 65_536
"""Characters of a request's target. A longer one is invalid HTTP to the server's parser."""
NEVER_INVALID = {"POST /in/{source_id}"}
"""Operations that take any input. Hypothesis would try 459 times before it gives up."""
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
async def base_url(database_url: str, tmp_path: Path) -> AsyncIterator[str]:
    """A real server on a thread of its own, with an empty database and Temporal away."""
    settings = development_settings(database_url, tmp_path).model_copy(
        # otherwise 401 would soon be 429 for every invalid key
        update={"auth_failures_per_minute": 0}
    )
    async with Database(settings.resolved_database_url) as database:
        await ensure_operator_key(database, settings, clock=utc_now)
    with borrowed_app(settings) as app:
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
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
    """Existing objects, so that not all generated requests end with "not found"."""

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
        job = self._make("POST", f"/events/{event['id']}/replay", {})
        source = self._make(
            "POST",
            "/sources",
            {"tenant_id": tenant["id"], "name": "x", "provider": "github", "secrets": [SECRET]},
        )
        headers, body = signed({"n": 1})
        received = session.post(f"{base_url}/in/{source['id']}", headers=headers, data=body)
        self.keys = self._keys(tenant["id"], tenant_key=key["key"])
        self.values = {
            "tenant_id": tenant["id"],
            "endpoint_id": endpoint["id"],
            "subscription_id": subscription["id"],
            "event_id": event["id"],
            "delivery_id": delivery["id"],
            "job_id": job["id"],
            "source_id": source["id"],
            "inbox_id": received.json()["id"],
            "key_id": key["id"],
            "name": "order.invoice.paid",
            "type": "order.invoice.paid",
            "event_type": "order.invoice.paid",
            "matches": "order.invoice.paid",
        }

    def _keys(self, tenant_id: str, *, tenant_key: str) -> dict[str, str | None]:
        """Create a key of each scope and state."""
        keys: dict[str, str | None] = {
            "operator": OPERATOR_KEY,
            "tenant": tenant_key,
            "none": None,
            "unknown": "hf_" + "x" * 40,
        }
        path = f"/tenants/{tenant_id}/api-keys"
        for scope in ("tenant:read", "emit"):
            keys[scope] = self._make("POST", path, {"scope": scope, "name": scope})["key"]
        stranger = self._make("POST", "/tenants", {"name": "Stranger"})
        form = {"scope": "tenant", "name": "stranger"}
        keys["stranger"] = self._make("POST", f"/tenants/{stranger['id']}/api-keys", form)["key"]
        revoked = self._make("POST", "/api-keys", {"scope": "operator", "name": "revoked"})
        keys["revoked"] = revoked["key"]
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        assert self._session.delete(f"{self._url}/api-keys/{revoked['id']}", headers=headers).ok
        soon = rfc3339(utc_now() + timedelta(seconds=1))
        form = {"scope": "operator", "name": "expired", "expires_at": soon}
        keys["expired"] = self._make("POST", "/api-keys", form)["key"]
        expired = {"Authorization": f"Bearer {keys['expired']}"}
        tenants = f"{self._url}/tenants"
        eventually(lambda: self._session.get(tenants, headers=expired).status_code == 401)
        return keys

    def _make(self, method: str, path: str, body: Json | None = None) -> Json:
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        answer = self._session.request(method, self._url + path, json=body, headers=headers)
        assert answer.ok, answer.text
        document: Json = answer.json()
        return document

    def put_into(self, case: Case, data: st.DataObject) -> None:
        """Replace some ids in the request by those of existing objects."""
        places: list[Any] = [case.path_parameters, case.query, case.body]
        if isinstance(case.body, dict) and isinstance(case.body.get("events"), list):
            places += case.body["events"]
        for place in places:
            if isinstance(place, dict):
                for name in place.keys() & self.values.keys():
                    if data.draw(st.booleans(), label=f"{name} exists"):
                        place[name] = self.values[name]


def _stay_here(case: Case) -> None:
    """Point every URL that would be called to loopback, and leave the framing to the client:
    invalid HTTP gets the server's own response, which no document describes."""
    for name in [name for name in case.headers if name.lower() in FRAMING]:
        del case.headers[name]
    if isinstance(case.body, dict) and isinstance(case.body.get("url"), str):
        case.body["url"] = RECEIVER
    if case.operation.label == "GET /v1/stream":
        case.query["after"] = "nowhere"  # otherwise the stream would not end
    if str(case.query.get("wait")) in _WAITS:
        case.query["wait"] = 0  # no event would arrive


def _check_access(who: str, operation: Any, answer: requests.Response, *, known: Known) -> None:
    """Check that a request never gets further than its key allows."""
    if who in ("none", "unknown", "revoked", "expired"):
        # a body over its size limit is rejected before any other check
        assert answer.status_code in (401, 413), answer.text
    reads = operation.method.upper() == "GET"
    emits = operation.label in ("POST /v1/events", "POST /v1/events/batch")
    if (who == "tenant:read" and not reads) or (who == "emit" and not emits):
        assert answer.status_code >= 400, answer.text
    if who == "stranger":
        others = {known.values[name] for name in known.values if name.endswith("_id")}
        assert not [one for one in others if one in answer.text], answer.text


@pytest.mark.timeout(0 if FUZZ else 300)  # a safety net; see EXAMPLES for what it takes
async def test_every_operation_answers_as_documented(base_url: str) -> None:
    await asyncio.to_thread(_try_every_operation, base_url)


def _try_every_operation(base_url: str) -> None:
    with requests.Session() as session:
        session.trust_env = False  # otherwise it looks for a .netrc before each request
        known = Known(base_url, session)
        schema = schemathesis.openapi.from_dict(deepcopy(DOCUMENT))
        operations = [result.ok() for result in schema.get_all_operations()]
        for operation in sorted(operations, key=lambda one: one.method == "delete"):
            for mode in GenerationMode:
                if mode is GenerationMode.NEGATIVE and operation.label in NEVER_INVALID:
                    continue
                try:
                    _try(operation, mode, base_url=base_url, session=session, known=known)
                except Unsatisfiable:
                    assert mode is GenerationMode.NEGATIVE  # no input to invalidate


def _try(
    operation: Any, mode: GenerationMode, *, base_url: str, session: requests.Session, known: Known
) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=not FUZZ,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
    def run(case: Case, data: st.DataObject) -> None:
        known.put_into(case, data)
        _stay_here(case)
        who = data.draw(st.sampled_from(["operator"] * 6 + sorted(known.keys)), label="key")
        key = known.keys[who]
        for name in [name for name in case.headers if name.lower() == "authorization"]:
            del case.headers[name]
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        answer = case.call(base_url=base_url, session=session, headers=headers)
        assume(len(answer.request.path_url) < LONGEST_TARGET)
        if operation.path.startswith("/v1/"):
            _check_access(who, operation, answer, known=known)
        # operations that need Temporal, which is away, answer 503
        may_be_503 = (
            operation.label.startswith(("POST /v1/deliveries/", "POST /v1/retention/"))
            or "readyz" in operation.label
        )
        assert answer.status_code < 500 or (answer.status_code == 503 and may_be_503), answer.text
        case.validate_response(answer, checks=CONFORMANCE)

    run()
