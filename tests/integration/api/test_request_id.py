"""Request ids in responses, problems and log lines."""

from __future__ import annotations

import asyncio
import re

import httpx2
import pytest
import structlog
from fastapi import FastAPI, Request

from api.answers.request_id import request_id
from tests.support.api_client import OPERATOR_KEY, assert_problem, client_with

pytestmark = pytest.mark.anyio

MADE = re.compile(r"req_[0-9a-f]{32}")


async def test_request_without_an_id_gets_one(client: httpx2.AsyncClient) -> None:
    answers = [await client.get("/tenants") for _ in range(2)]
    names = {answer.headers["x-request-id"] for answer in answers}
    assert len(names) == 2
    assert all(MADE.fullmatch(name) for name in names)


@pytest.mark.parametrize(
    "name", ["x", "7f1c-22", "01J0/abc:def=+@~._", "a" * 128, "00-0af7651916cd43dd8448eb211c80319c"]
)
async def test_valid_id_of_the_caller_is_kept(client: httpx2.AsyncClient, name: str) -> None:
    answer = await client.get("/tenants", headers={"X-Request-Id": name})
    assert answer.headers["x-request-id"] == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", 'a"b', "a" * 129, "a{b}", "<script>", "\u00e9", "a\tb", "a,b"]
)
async def test_an_id_that_could_confuse_a_log_is_replaced(
    client: httpx2.AsyncClient, name: str
) -> None:
    answer = await client.get("/tenants", headers={"X-Request-Id": name.encode("latin-1")})
    assert answer.status_code == 200
    assert MADE.fullmatch(answer.headers["x-request-id"])


async def test_two_ids_count_as_none(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/tenants", headers=[("X-Request-Id", "a"), ("X-Request-Id", "b")])
    assert MADE.fullmatch(answer.headers["x-request-id"])


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("PUT", "/tenants", 405, "method_not_allowed"),
        ("POST", "/tenants", 415, "unsupported_media_type"),
        ("POST", "/events", 413, "too_large"),
    ],
)
async def test_a_problem_names_its_request(
    client: httpx2.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    answer = await client.request(
        method,
        path,
        content=b"x" * (300_000 if status == 413 else 1),
        headers={"X-Request-Id": "mine", "Content-Type": "text/plain"},
    )
    problem = assert_problem(answer, status, code=code)
    assert problem["request_id"] == answer.headers["x-request-id"] == "mine"


async def test_an_unexpected_error_names_its_request(
    answer_to_an_unexpected_error: httpx2.Response,
) -> None:
    answer = answer_to_an_unexpected_error
    problem = assert_problem(answer, 500, code="internal_error")
    assert MADE.fullmatch(problem["request_id"])
    assert problem["request_id"] == answer.headers["x-request-id"]


async def test_log_lines_have_the_id_of_their_request(own_app: FastAPI) -> None:
    @own_app.get("/logged")
    async def logged(request: Request) -> dict[str, object]:
        await asyncio.sleep(0.01)  # let other requests run in between
        bound = structlog.contextvars.get_contextvars()
        return {"bound": bound.get("request_id"), "state": request_id(request)}

    async with client_with(own_app, OPERATOR_KEY) as client:
        answers = await asyncio.gather(
            *(
                client.get("http://hookfast.test/logged", headers={"X-Request-Id": f"r{number}"})
                for number in range(5)
            )
        )
    assert [answer.json() for answer in answers] == [
        {"bound": f"r{number}", "state": f"r{number}"} for number in range(5)
    ]
    assert "request_id" not in structlog.contextvars.get_contextvars()
