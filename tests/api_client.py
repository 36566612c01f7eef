"""Clients for the API under test, and the types of the fixtures that fill it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import httpx2
from fastapi import FastAPI

OPERATOR_KEY = "hf_" + "operator-key-of-the-tests-" * 2

Json = dict[str, Any]


def client_with(app: FastAPI, key: str) -> httpx2.AsyncClient:
    """A client that sends this API key; paths are relative to `/v1`."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app),
        base_url="http://hookfast.test/v1",
        headers={"Authorization": f"Bearer {key}"},
    )


class Make(Protocol):
    """Makes something through the API: `members` override the defaults; gives the answer."""

    async def __call__(self, **members: Any) -> Json: ...


class MakeEventType(Protocol):
    """Registers an event type by its name."""

    async def __call__(self, name: str, **members: Any) -> Json: ...


class KeyClient(Protocol):
    """Opens a client with a new API key of a tenant."""

    def __call__(
        self, tenant_id: str, *, scope: str = "tenant"
    ) -> AbstractAsyncContextManager[httpx2.AsyncClient]: ...


def assert_problem(
    answer: httpx2.Response, status: int, *, code: str, pointer: str | None = None
) -> Json:
    """Check that the answer is this problem (RFC 9457), and give its document."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: Json = answer.json()
    assert problem["status"] == status
    assert problem["code"] == code, problem
    assert problem["type"] == f"urn:hookfast:problem:{code}"
    assert problem["title"]
    assert problem["detail"]
    if pointer is not None:
        assert pointer in [error["pointer"] for error in problem["errors"]], problem
    return problem
