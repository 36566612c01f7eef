"""Every error is a problem document without private data."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import asyncpg
import httpx2
import pytest
from sqlalchemy import make_url

from hookfast.settings.settings import Settings
from tests.integration.api.shared.operations import DOCUMENT
from tests.support.api_client import (
    OPERATOR_KEY,
    assert_problem,
    borrowed_app,
    client_with,
    development_settings,
    running_app,
)
from tests.support.postgresql import PostgresqlServer

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "body",
    [b"", b'{"name": "x", "metadata": {"a": {"b": 1, "b": 2}}}', b"[" * 100_000],
    ids=lambda body: repr(body[:24]),
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/tenants"), ("PUT", "/event-types/a.b.c")])
async def test_body_that_is_not_strict_json_answers_422(
    common_client: httpx2.AsyncClient, method: str, path: str, body: bytes
) -> None:
    """What strict JSON is: tests/unit/strict_json."""
    answer = await common_client.request(method, path, content=body, headers=JSON)
    assert_problem(answer, 422, code="invalid_json")


@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "text/json", "application/jsonx"],
)
async def test_body_not_declared_as_json_answers_415(
    common_client: httpx2.AsyncClient, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    answer = await common_client.post("/tenants", content=b'{"name": "x"}', headers=headers)
    assert_problem(answer, 415, code="unsupported_media_type")


@pytest.mark.parametrize("charset", ["utf-16", "latin-1"])
async def test_json_in_another_charset_answers_415_on_every_route(
    common_client: httpx2.AsyncClient, charset: str
) -> None:
    body = '{"type": "a.b.c", "data": {}}'.encode(charset)
    headers = {"content-type": f"application/json; charset={charset}"}
    routes = [
        (method, path)
        for path, methods in DOCUMENT["paths"].items()
        for method, route in methods.items()
        if path.startswith("/v1/") and "requestBody" in route
    ]
    assert len(routes) > 25
    for method, path in routes:
        answer = await common_client.request(
            method, re.sub(r"{\w+}", "x", path.removeprefix("/v1")), content=body, headers=headers
        )
        problem = assert_problem(answer, 415, code="unsupported_media_type")
        assert "JSON is in UTF-8" in problem["detail"]


@pytest.mark.parametrize(
    "content_type",
    [
        *("application/json", "Application/JSON; charset=utf-8", "application/vnd.acme+json"),
        'application/json;charset="UTF-8"; q=1;',
    ],
)
async def test_every_json_content_type_is_accepted(
    common_client: httpx2.AsyncClient, content_type: str
) -> None:
    answer = await common_client.post(
        "/tenants", content=b'{"name": "x"}', headers={"content-type": content_type}
    )
    assert answer.status_code == 201


async def test_a_problem_never_repeats_the_input(common_client: httpx2.AsyncClient) -> None:
    body = {"name": "x" * 201, "metadata": "the-value", "token": "s3cret"}
    problem = assert_problem(
        await common_client.post("/tenants", json=body), 422, code="invalid_input"
    )
    assert [error["pointer"] for error in problem["errors"]] == ["/name", "/metadata", "/token"]
    assert "the-value" not in str(problem)
    assert "s3cret" not in str(problem)
    assert "xxx" not in str(problem)


async def test_a_problem_lists_at_most_twenty_errors_with_short_pointers(
    common_client: httpx2.AsyncClient,
) -> None:
    body = {f"{'unknown' * 100}{number}": 1 for number in range(50)}
    problem = assert_problem(
        await common_client.post("/tenants", json=body), 422, code="invalid_input"
    )
    assert len(problem["errors"]) == 20
    assert all(len(error["pointer"]) <= 200 for error in problem["errors"])


async def test_an_unknown_path_and_an_unknown_method_are_problems(
    common_client: httpx2.AsyncClient,
) -> None:
    assert_problem(await common_client.get("/nothing"), 404, code="not_found")
    answer = await common_client.delete("/event-types")
    assert_problem(answer, 405, code="method_not_allowed")
    assert answer.headers["allow"] == "GET"


async def test_head_is_answered_wherever_get_is_except_by_streams(
    common_client: httpx2.AsyncClient,
) -> None:
    root = str(common_client.base_url).removesuffix("/v1/")
    paths = [path for path, methods in DOCUMENT["paths"].items() if "get" in methods]
    assert len(paths) > 40
    for path in paths:
        url = root + re.sub(r"{[a-z_]+}", "none", path)
        if path == "/v1/stream":
            answer = await common_client.head(url)
            assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")
        else:
            get = await common_client.get(url)
            assert (await common_client.head(url)).status_code == get.status_code, path


async def test_nul_in_a_query_parameter_is_rejected(common_client: httpx2.AsyncClient) -> None:
    answer = await common_client.get("/subscriptions?matches=a.b%00.c")
    assert_problem(answer, 422, code="invalid_input", pointer="matches")


@pytest.mark.parametrize("query", ["limit=1&limit=2", "limit=2&limit=2", "limit=&limit=2"])
async def test_repeated_query_parameter_is_rejected(
    common_client: httpx2.AsyncClient, query: str
) -> None:
    """A caller that repeats a filter means both, and would get only the last one's rows."""
    answer = await common_client.get(f"/tenants?{query}")
    assert_problem(answer, 422, code="invalid_input", pointer="limit")


@pytest.mark.parametrize(
    "url", ["postgresql://u:s3cret@127.0.0.1:1/hookfast", "sqlite:///{folder}"]
)
async def test_database_outage_answers_503_with_retry_after(tmp_path: Path, url: str) -> None:
    settings = Settings(home=tmp_path, database_url=url.format(folder=tmp_path))
    with borrowed_app(settings) as app:
        async with app.router.lifespan_context(app), client_with(app, OPERATOR_KEY) as client:
            answer = await client.get("/tenants")
    await asyncio.sleep(0.1)  # the SQLite driver's thread still has to report its end to this loop
    problem = assert_problem(answer, 503, code="unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "s3cret" not in str(problem)


async def test_lost_connections_are_replaced_or_answer_503(
    tmp_path: Path, postgresql_url: str, postgresql_server: PostgresqlServer
) -> None:
    settings = development_settings(postgresql_url, tmp_path)
    async with running_app(settings) as app, client_with(app, OPERATOR_KEY) as client:
        assert (await client.get("/tenants")).status_code == 200
        connection = await asyncpg.connect(postgresql_server.url)
        try:
            name = make_url(postgresql_url).database
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name
            )
        finally:
            await connection.close()
        assert (await client.get("/tenants")).status_code in (200, 503)


async def test_unexpected_error_answers_500_without_details(
    answer_to_an_unexpected_error: httpx2.Response,
) -> None:
    answer = answer_to_an_unexpected_error
    problem = assert_problem(answer, 500, code="internal_error")
    assert problem["instance"].startswith("urn:uuid:")
    assert "s3cret" not in answer.text
    assert "boom" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "body", "pointers"),
    [
        ("POST", "/endpoints", {"retry_plan": 5}, {"/retry_plan"}),
        ("POST", "/deliveries/actions", {"filter": {"status": 5}}, {"/action", "/filter/status"}),
        (
            "POST",
            "/deliveries/actions",
            {"action": "pause", "filter": {"status": ["dead", "x"]}},
            {"/filter/status", "/filter/status/1"},
        ),
        (
            "POST",
            "/deliveries/actions",
            {"action": "x", "filter": {"ids": ["x"]}},
            {"/action", "/filter/ids/0"},
        ),
        ("PUT", "/event-types/a.b.c", {"schema": 5}, {"/schema"}),
        (
            "POST",
            "/sources",
            {"name": "x", "provider": "github", "idempotency": {"expression": {"a.b.c": 5}}},
            {"/idempotency/expression", "/idempotency/expression/a.b.c"},
        ),
        ("POST", "/events", {"type": 5, "query": 5}, {"/type", "/data", "/query"}),
    ],
)
async def test_pointer_names_a_present_or_missing_member(
    common_client: httpx2.AsyncClient,
    method: str,
    path: str,
    body: dict[str, object],
    pointers: set[str],
) -> None:
    answer = await common_client.request(method, path, json=body)
    problem = assert_problem(answer, 422, code="invalid_input")
    found = {error["pointer"] for error in problem["errors"]}
    assert found == pointers


@pytest.mark.parametrize("name", ["query", "body", "path"])
async def test_patch_of_an_unknown_member_is_rejected_by_name(
    common_client: httpx2.AsyncClient, common_tenant: str, name: str
) -> None:
    answer = await common_client.patch(
        f"/tenants/{common_tenant}",
        content=json.dumps({name: 1}),
        headers={"content-type": "application/merge-patch+json"},
    )
    assert_problem(answer, 422, code="invalid_input", pointer=f"/{name}")


@pytest.mark.parametrize(
    ("path", "body", "pointer", "detail"),
    [
        ("/tenants", [], "", "must be a JSON object"),
        ("/tenants", None, "", "must be a JSON object"),
        ("/tenants", {}, "/name", "is required"),
        ("/tenants", {"name": "x", "metadata": []}, "/metadata", "must be a JSON object"),
        ("/endpoints", {"owner_emails": "a@b.example"}, "/owner_emails", "must be a JSON array"),
        ("/endpoints", {"circuit": 5}, "/circuit", "must be a JSON object"),
    ],
)
async def test_errors_use_the_words_of_json(
    common_client: httpx2.AsyncClient, path: str, body: object, pointer: str, detail: str
) -> None:
    answer = await common_client.post(path, content=json.dumps(body), headers=JSON)
    problem = assert_problem(answer, 422, code="invalid_input")
    assert {"pointer": pointer, "detail": detail} in problem["errors"]
