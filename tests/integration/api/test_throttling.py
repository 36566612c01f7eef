"""Limits of failed authentications per client, and of requests per key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import select

from hookfast.settings.settings import Settings
from hookfast.storage.tables import Tenant
from tests.integration.dashboard.visitor import browser, sign_in
from tests.support.api_client import OPERATOR_KEY, assert_problem, client_with, running_app

pytestmark = pytest.mark.anyio

WRONG = "hf_" + "x" * 43
LIMIT = 3

Started = Callable[..., AbstractAsyncContextManager[FastAPI]]


@pytest.fixture
def started(settings: Settings) -> Started:
    """`async with started(key_rate_per_second=1) as app:` an application with these settings."""

    @asynccontextmanager
    async def start(**changes: object) -> AsyncIterator[FastAPI]:
        async with running_app(settings.model_copy(update=changes)) as app:
            yield app

    return start


def client_at(app: FastAPI, address: str, key: str | None = WRONG) -> httpx2.AsyncClient:
    """A client at this address."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app, client=(address, 1234)),
        base_url="http://hookfast.test/v1",
        headers={} if key is None else {"Authorization": f"Bearer {key}"},
    )


async def statuses(client: httpx2.AsyncClient, count: int, **options: object) -> list[int]:
    return [(await client.get("/tenants", **options)).status_code for _ in range(count)]


async def test_too_many_failures_answer_429_with_retry_after(started: Started) -> None:
    async with (
        started(auth_failures_per_minute=LIMIT) as app,
        client_at(app, "203.0.113.7") as client,
    ):
        assert await statuses(client, LIMIT) == [401] * LIMIT
        answer = await client.get("/tenants")
    assert_problem(answer, 429, code="too_many_failures")
    assert 1 <= int(answer.headers["retry-after"]) <= 60 / LIMIT
    assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize(
    "authorization", [None, "Bearer", "Basic dTpw", "Bearer nonsense", f"Bearer {WRONG}"]
)
async def test_every_kind_of_authentication_failure_counts(
    started: Started, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with (
        started(auth_failures_per_minute=LIMIT) as app,
        client_at(app, "203.0.113.7", None) as client,
    ):
        assert await statuses(client, LIMIT + 1, headers=headers) == [401] * LIMIT + [429]


async def test_a_valid_key_works_from_an_address_that_failed_too_often(started: Started) -> None:
    async with (
        started(auth_failures_per_minute=LIMIT) as app,
        client_at(app, "203.0.113.7") as wrong,
        client_at(app, "203.0.113.7", OPERATOR_KEY) as right,
    ):
        assert (await statuses(wrong, LIMIT + 1))[-1] == 429
        # its first request to this process works during the flood, not only after it
        answers = await asyncio.gather(
            *(wrong.get("/tenants") for _ in range(20)), right.get("/tenants")
        )
        assert [answer.status_code for answer in answers] == [429] * 20 + [200]
        assert await statuses(right, LIMIT * 2) == [200] * LIMIT * 2
        assert await statuses(wrong, 1) == [429]  # its success does not reset the failures


async def test_successful_authentication_does_not_count_as_failure(started: Started) -> None:
    async with (
        started(auth_failures_per_minute=LIMIT) as app,
        client_at(app, "203.0.113.7", OPERATOR_KEY) as client,
    ):
        assert await statuses(client, LIMIT * 3) == [200] * LIMIT * 3
        # 403 and 404 with a valid key are no failures either
        missing = [await client.get(f"/tenants/tnt_{'0' * 32}") for _ in range(LIMIT * 2)]
        assert {answer.status_code for answer in missing} == {404}


@pytest.mark.parametrize(
    ("one", "other", "is_same_client"),
    [
        ("203.0.113.7", "203.0.113.8", False),
        ("203.0.113.7", "::ffff:203.0.113.7", True),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
    ],
)
async def test_failures_count_per_ipv4_address_and_per_ipv6_site(
    started: Started, one: str, other: str, is_same_client: bool
) -> None:
    async with (
        started(auth_failures_per_minute=LIMIT) as app,
        client_at(app, one) as first,
        client_at(app, other) as second,
    ):
        assert (await statuses(first, LIMIT + 1))[-1] == 429
        assert await statuses(second, 1) == [429 if is_same_client else 401]


async def test_failures_behind_a_trusted_proxy_count_per_client(started: Started) -> None:
    trusted = Settings(trusted_proxies="10.0.0.0/8").trusted_proxies
    async with (
        started(auth_failures_per_minute=LIMIT, trusted_proxies=trusted) as app,
        client_at(app, "10.0.0.1") as proxy,
        client_at(app, "203.0.113.7") as direct,
    ):
        bad = {"X-Forwarded-For": "198.51.100.1"}
        assert (await statuses(proxy, LIMIT + 1, headers=bad))[-1] == 429
        assert await statuses(proxy, 1, headers={"X-Forwarded-For": "198.51.100.2"}) == [401]
        # a client that is not our proxy cannot avoid its own count
        for number in range(LIMIT):
            await statuses(direct, 1, headers={"X-Forwarded-For": f"198.51.100.{number}"})
        assert await statuses(direct, 1, headers={"X-Forwarded-For": "192.0.2.1"}) == [429]


async def test_failure_limit_zero_means_no_limit(started: Started) -> None:
    async with (
        started(auth_failures_per_minute=0) as app,
        client_at(app, "203.0.113.7") as client,
    ):
        assert await statuses(client, 100) == [401] * 100


async def test_key_over_its_rate_gets_429_with_rate_limit_headers(started: Started) -> None:
    async with (
        started(key_rate_per_second=0.05, key_rate_burst=2) as app,
        client_with(app, OPERATOR_KEY) as client,
    ):
        answers = [await client.get("/tenants") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert_problem(answers[2], 429, code="rate_limited")
    assert [answer.headers["ratelimit"] for answer in answers] == [
        '"key";r=1;t=20',  # one token in 1 / 0.05 = 20 s
        '"key";r=0;t=40',
        '"key";r=0;t=40',
    ]
    assert {answer.headers["ratelimit-policy"] for answer in answers} == {'"key";q=2;w=40'}
    assert 1 <= int(answers[2].headers["retry-after"]) <= 20


async def test_each_key_has_its_own_rate_shown_on_errors_too(started: Started) -> None:
    async with (
        started(key_rate_per_second=0.05, key_rate_burst=2) as app,
        client_with(app, OPERATOR_KEY) as client,
    ):
        made = await client.post("/api-keys", json={"scope": "operator", "name": "other"})
        missing = await client.get(f"/tenants/tnt_{'0' * 32}")
        assert missing.status_code == 404
        assert missing.headers["ratelimit"].startswith('"key";r=0;')
        assert await statuses(client, 1) == [429]
        async with client_with(app, made.json()["key"]) as other:
            assert await statuses(other, 3) == [200, 200, 429]


async def test_portal_session_has_its_own_rate(
    started: Started,
) -> None:
    async with (
        started(key_rate_per_second=0.001, key_rate_burst=4) as app,
        client_with(app, OPERATOR_KEY) as client,
        browser(app) as customer,
        browser(app) as another,
    ):
        tenant = (await client.post("/tenants", json={"name": "Shop"})).json()["id"]
        made = await client.post(f"/tenants/{tenant}/portal-links")
        link = made.json()["url"].partition("/portal")[2]
        for visitor in (customer, another):
            assert (await visitor.get(f"/portal{link}")).status_code == 303
            pages = [(await visitor.get("/portal/event-types")).status_code for _ in range(5)]
            assert pages == [200, 200, 200, 200, 429]
        assert await statuses(client, 3) == [200, 200, 429]  # two requests were used before
        # starting another session does not help
        opened = []
        for _ in range(3):
            async with browser(app) as visitor:
                opened.append((await visitor.get(f"/portal{link}")).status_code)
        assert opened == [303, 303, 429]


async def test_signing_in_counts_as_a_request_of_its_key(started: Started) -> None:
    """A session's requests count against its key's rate. If sign-ins did not, they would have no
    limit."""
    async with started(key_rate_per_second=0.001, key_rate_burst=2) as app:
        answers = []
        for _ in range(3):
            async with browser(app) as visitor:
                answers.append(await sign_in(visitor, OPERATOR_KEY))
    assert [answer.status_code for answer in answers] == [303, 303, 429]
    assert "session made too many requests" in answers[-1].text
    assert "hookfast-session" not in answers[-1].headers.get("set-cookie", "")


async def test_rate_limited_request_changes_nothing(started: Started) -> None:
    async with (
        started(key_rate_per_second=0.001, key_rate_burst=1) as app,
        client_with(app, OPERATOR_KEY) as client,
    ):
        assert (await client.post("/tenants", json={"name": "taken"})).status_code == 201
        assert (await client.post("/tenants", json={"name": "refused"})).status_code == 429
        async with app.state.context.database.read() as connection:
            names = await connection.scalars(select(Tenant.__table__.c.name))
            assert sorted(names) == ["Hookfast", "taken"]  # the first is the system tenant


async def test_without_a_rate_limit_responses_have_no_rate_limit_headers(
    client: httpx2.AsyncClient,
) -> None:
    answer = await client.get("/tenants")
    assert not [name for name in answer.headers if name.startswith("ratelimit")]
