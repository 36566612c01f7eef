"""Names, URLs and parts of ids in place of whole ids, and names in place of ids on a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from hookfast.cli.remote.api import Api
from hookfast.cli.remote.names import Names
from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_client import OPERATOR_KEY
from tests.support.api_server import ApiServer

pytestmark = pytest.mark.anyio

NewEndpoint = Callable[..., Awaitable[str]]


@pytest.fixture
def new_endpoint(client: httpx2.AsyncClient, tenant: str) -> NewEndpoint:
    """Create an endpoint with this description and URL; return its id."""

    async def create(description: str, url: str, *, tenant_id: str = tenant) -> str:
        form = {
            "tenant_id": tenant_id,
            "url": f"http://127.0.0.1:4/{url}",
            "description": description,
            "verification": "none",
            "events": ["order.**"],
        }
        answer = await client.post("/endpoints", json=form)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    return create


async def test_a_command_accepts_a_name_a_url_or_a_unique_part(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str, new_endpoint: NewEndpoint
) -> None:
    billing = await new_endpoint("Billing", "billing/hook")
    other = await new_endpoint("Billing archive", "archive")
    for given in ("Billing", "billing", "http://127.0.0.1:4/billing/hook", "ing/ho", billing[-12:]):
        shown = await hookfast("endpoints", "show", given, "--json")
        assert (shown.code, shown.json["id"]) == (0, billing), shown.err
        assert shown.err == f"endpoint: {billing} Billing\n"
    whole = await hookfast("endpoints", "show", other)
    assert whole.err == ""  # a whole id is not looked up

    await client.post("/events", json={"type": TYPE, "data": 1})
    query = ("--endpoint", "archive", "--tenant", "acm", "--json")
    [delivery] = (await hookfast("deliveries", "list", *query)).json["data"]
    assert delivery["endpoint_id"] == other
    for part in (delivery["id"][-10:], f"dlv_…{delivery['id'][-10:]}"):
        shown = await hookfast("deliveries", "show", part, "--json")
        assert shown.json["id"] == delivery["id"]
    made = await hookfast("keys", "create", "the key", "--scope", "tenant", "--tenant", "Acme")
    assert made.code == 0, made.err
    revoked = await hookfast("keys", "revoke", "the key", "--tenant", "Acme")
    assert "is revoked" in revoked.err


async def test_several_matches_are_listed_and_nothing_is_done(
    hookfast: Run, new_endpoint: NewEndpoint, client: httpx2.AsyncClient, tenant: str
) -> None:
    ids = [await new_endpoint("Production", f"{number}") for number in range(12)]
    ended = await hookfast("endpoints", "pause", "production")
    assert ended.code == 2
    assert "12 endpoints match 'production'; give an id" in ended.error_text
    listed = ended.err.splitlines()[:11]
    assert listed[:10] == [f"  {id_} Production" for id_ in reversed(ids[2:])]
    assert listed[10] == "  and 2 more"
    none = await hookfast("endpoints", "pause", "staging")
    assert none.code == 2
    assert "there is no endpoint 'staging'" in none.error_text
    states = {row["state"] for row in (await client.get("/endpoints")).json()["data"]}
    assert states == {"enabled"}

    other = (await client.post("/tenants", json={"name": "Umbrella"})).json()["id"]
    own = await new_endpoint("Production", "umbrella", tenant_id=other)
    query = ("--endpoint", "production", "--tenant", "umbrella")
    listed_deliveries = await hookfast("deliveries", "list", *query)
    assert f"endpoint: {own} Production" in listed_deliveries.err


async def test_what_cannot_be_undone_needs_the_whole_name(
    hookfast: Run, client: httpx2.AsyncClient, new_endpoint: NewEndpoint
) -> None:
    billing = await new_endpoint("Billing", "billing")
    ended = await hookfast("endpoints", "delete", "bill", "--yes")
    assert ended.code == 2
    assert "give the whole name of the endpoint, or its id" in ended.error_text
    assert f"  {billing} Billing\n" in ended.err
    assert (await client.get(f"/endpoints/{billing}")).status_code == 200
    ended = await hookfast("endpoints", "delete", "billing", "--yes")
    assert ended.code == 0, ended.err
    assert (await client.get(f"/endpoints/{billing}")).status_code == 404


async def test_a_terminal_shows_names_and_wide_or_a_pipe_ids(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str, new_endpoint: NewEndpoint
) -> None:
    billing = await new_endpoint("Billing", "billing")
    unnamed = await new_endpoint("", "unnamed/hook")
    await client.post("/events", json={"type": TYPE, "data": 1})
    terminal = {"TTY_COMPATIBLE": "1", "COLUMNS": "140", "TERM": "xterm", "NO_COLOR": "1"}
    shown = await hookfast("deliveries", "list", env=terminal)
    assert " Billing " in shown.out
    assert " 127.0.0.1:4/unnamed/hook " in shown.out
    assert billing not in shown.out
    for env, more in ((terminal, ("--wide",)), ({}, ())):
        shown = await hookfast("deliveries", "list", *more, env=env)
        assert billing in shown.out
        assert unnamed in shown.out
    await client.delete(f"/endpoints/{unnamed}")
    shown = await hookfast("deliveries", "list", env=terminal)
    assert f" ep_…{unnamed[-8:]} " in shown.out  # its name is gone with it


async def test_names_of_many_ids_take_few_requests(
    served: ApiServer, tenant: str, new_endpoint: NewEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await new_endpoint(f"Name {number}", f"{number}") for number in range(30)]
    api = Api(served.url, key=OPERATOR_KEY, key_origin="the test")
    asked: list[str] = []
    get = Api.get
    monkeypatch.setattr(
        Api, "get", lambda self, path, query=None: asked.append(path) or get(self, path, query)
    )
    names = Names(api)
    found = await asyncio.to_thread(names.of, "endpoint", ids)
    assert found == {id_: f"Name {number}" for number, id_ in enumerate(ids)}
    assert asked == ["/endpoints"]
    gone = [f"ep_{number:032x}" for number in range(100)]
    assert await asyncio.to_thread(names.of, "endpoint", [*ids, *gone]) == found
    assert len(asked) <= 22
    api.close()
