"""`hookfast endpoints`, `tenants` and `keys`."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx2
import pytest
from sqlalchemy import insert

from hookfast.ids import new_id
from hookfast.storage.tables import EndpointHealth, Notice
from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_client import Json
from tests.support.api_server import ApiServer
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio


async def test_an_endpoint_is_created_and_its_secret_shown_once(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str, receiver: Receiver
) -> None:
    created = await hookfast(
        *("endpoints", "create", receiver.url("/challenge"), "--tenant", tenant),
        *("--events", "order.**", "--events", "refund.**", "--owner", "ops@example.com"),
        *("--retry-plan", '{"delays_seconds": [1, 2]}', "--verification", "none"),
        *("--ordered", "--signature-hash", "sha512", "--members", "-"),
        stdin='{"timeout_seconds": 7, "headers": {"X-Token": "hush"}}',
    )
    assert created.code == 0, created.err
    assert "Warning: No registered event type matches 'refund.**' yet." in created.err
    [endpoint] = (await client.get("/endpoints")).json()["data"]
    assert endpoint["timeout_seconds"] == 7
    assert endpoint["ordered"]
    assert endpoint["owner_emails"] == ["ops@example.com"]
    assert endpoint["verification"] == "none"
    assert endpoint["retry_plan"]["delays_seconds"] == [1, 2]
    [subscription] = (await client.get("/subscriptions")).json()["data"]
    assert subscription["events"] == ["order.**", "refund.**"]
    assert created.out.splitlines()[-1].startswith("whsec_")
    assert "hush" not in created.out
    shown = await hookfast("endpoints", "show", endpoint["id"])
    assert endpoint["url"] in shown.out
    assert "signature hash  sha512" in shown.out
    assert "whsec_" not in shown.out


async def test_no_endpoint_is_created_if_the_receiver_does_not_agree(
    hookfast: Run, tenant: str, receiver: Receiver
) -> None:
    created = await hookfast("endpoints", "create", receiver.url("/ok"), "--tenant", tenant)
    assert (created.code, created.out) == (1, "")
    assert "X-Hook-Challenge" in created.err


async def test_endpoints_are_listed_changed_and_deleted(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json
) -> None:
    listed = await hookfast("endpoints", "list", "--state", "enabled")
    assert f"{endpoint['id']}  healthy  {endpoint['tenant_id']}" in listed.out
    changed = await hookfast("endpoints", "update", endpoint["id"], '{"description": "till"}')
    assert "till" in changed.out
    failed = await hookfast("endpoints", "delete", endpoint["id"], stdin="n\n")
    assert failed.code == 1
    assert endpoint["url"] in failed.err
    deleted = await hookfast("endpoints", "delete", endpoint["id"], "--yes")
    assert deleted.code == 0, deleted.err
    assert (await client.get("/endpoints")).json()["data"] == []


@pytest.mark.parametrize("patch", ["nonsense", "[]"])
async def test_patch_that_is_not_an_object_is_a_usage_error(
    hookfast: Run, endpoint: Json, patch: str
) -> None:
    assert (await hookfast("endpoints", "update", endpoint["id"], patch)).code == 2


@pytest.mark.parametrize(("action", "state"), [("pause", "paused"), ("disable", "disabled")])
async def test_endpoint_is_paused_or_disabled_and_enabled_again(
    hookfast: Run, endpoint: Json, action: str, state: str
) -> None:
    stopped = await hookfast("endpoints", action, endpoint["id"])
    assert stopped.code == 0, stopped.err
    assert stopped.out.startswith(f"{endpoint['id']} is {state}")
    back = await hookfast("endpoints", "resume" if action == "pause" else "enable", endpoint["id"])
    assert back.out == f"{endpoint['id']} is enabled.\n"


async def test_resuming_an_endpoint_with_an_open_circuit_says_that_it_is_probed(
    hookfast: Run, served: ApiServer, endpoint: Json
) -> None:
    now = served.context.clock()
    async with served.context.database.write() as connection:
        await connection.execute(
            insert(EndpointHealth.__table__),
            {
                "endpoint_id": endpoint["id"],
                "consecutive_failures": 5,
                "circuit": "open",
                "episode": 1,
                "opened_at": now,
                "next_probe_at": now + timedelta(minutes=5),
            },
        )
    resumed = await hookfast("endpoints", "resume", endpoint["id"])
    assert resumed.out.splitlines() == [
        f"{endpoint['id']} is enabled.",
        "Its circuit is open; it is probed now.",
    ]


async def test_enabling_can_send_the_dead_letters_again(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json
) -> None:
    await hookfast("endpoints", "disable", endpoint["id"])
    event = {"type": TYPE, "data": 1, "tenant_id": endpoint["tenant_id"]}
    assert (await client.post("/events", json=event)).status_code == 202
    enabled = await hookfast("endpoints", "enable", endpoint["id"], "--redrive")
    [job] = (await client.get("/jobs")).json()["data"]
    assert f"{job['id']}: resend of 1 delivery." in enabled.out
    as_json = await hookfast("endpoints", "enable", endpoint["id"], "--json")
    assert (as_json.json["state"], as_json.json["job"]) == ("enabled", None)


async def test_the_health_of_an_endpoint_that_never_failed_is_short(
    hookfast: Run, endpoint: Json
) -> None:
    health = await hookfast("endpoints", "health", endpoint["id"])
    assert health.code == 0, health.err
    facts = dict(line.split(maxsplit=1) for line in health.out.splitlines())
    assert facts["health"].strip() == "healthy"
    assert facts["state"].strip() == "enabled"
    assert facts["circuit"].strip() == "closed"
    assert "probe" not in health.out


async def test_health_of_a_failing_endpoint_shows_its_circuit_and_mail(
    hookfast: Run, served: ApiServer, endpoint: Json
) -> None:
    now = served.context.clock()
    async with served.context.database.write() as connection:
        await connection.execute(
            insert(EndpointHealth.__table__),
            {
                "endpoint_id": endpoint["id"],
                "consecutive_failures": 6,
                "first_failure_at": now,
                "last_failure_at": now,
                "last_error": "The receiver\x1b[31m answered 503.",
                "circuit": "half_open",
                "episode": 2,
                "cause": "failures",
                "opened_at": now,
                "probes": 3,
                "next_probe_at": now + timedelta(minutes=5),
            },
        )
        await connection.execute(
            insert(Notice.__table__),
            {
                "id": new_id("ntc", now),
                "endpoint_id": endpoint["id"],
                "tenant_id": endpoint["tenant_id"],
                "episode": 2,
                "kind": "opened",
                "owner_hash": "0" * 64,
                "email": "ops@example.com",
                "facts": {},
                "created_at": now,
            },
        )
    health = await hookfast("endpoints", "health", endpoint["id"])
    assert health.code == 0, health.err
    shown = await hookfast("endpoints", "show", endpoint["id"])
    assert re.search(r"^health +circuit_open *$", shown.out, re.MULTILINE)
    listed = await hookfast("endpoints", "list", "--health", "circuit_open")
    assert f"{endpoint['id']}  circuit_open" in listed.out
    assert endpoint["id"] not in (await hookfast("endpoints", "list", "--health", "healthy")).out
    for words in (
        "circuit_open",
        "half-open",
        "The receiver�[31m answered 503.",
        "failures in a row  6",
        "probes             3",
        "opened  ops@example.com  pending",
        f"circuit/{endpoint['id']}",
    ):
        assert words in health.out, health.out


async def test_recover_counts_failed_deliveries(hookfast: Run, endpoint: Json) -> None:
    counted = await hookfast("endpoints", "recover", endpoint["id"], "--since", "2h", "--dry-run")
    assert (counted.code, counted.out) == (0, "No delivery matches.\n")


async def test_tenants_are_created_and_listed(hookfast: Run) -> None:
    created = (await hookfast("tenants", "create", "Acme [bold]", "--json")).json
    listed = await hookfast("tenants", "list")
    assert created["id"] in listed.out
    assert "Acme [bold]" in listed.out


async def test_usage_of_a_tenant_is_shown_with_its_quotas(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json
) -> None:
    tenant = endpoint["tenant_id"]
    shown = (await hookfast("tenants", "usage", tenant)).out.splitlines()
    assert ["events", "today", "no", "limit"] in [line.split() for line in shown]
    await client.patch(f"/tenants/{tenant}", json={"quotas": {"endpoints": 1_500}})
    await client.patch(f"/tenants/{tenant}", json={"quotas": {"events_per_day": 9}})
    shown = (await hookfast("tenants", "usage", tenant)).out.splitlines()
    assert ["endpoints", "1", "of", "1,500"] in [line.split() for line in shown]
    assert ["events", "today", "0", "of", "9"] in [line.split() for line in shown]
    as_json = (await hookfast("tenants", "usage", tenant, "--json")).json
    assert as_json["endpoints"] == {"used": 1, "limit": 1_500}


async def test_a_key_is_printed_alone_and_stops_working_when_revoked(
    hookfast: Run, tenant: str
) -> None:
    created = await hookfast(
        *("keys", "create", "ci", "--scope", "tenant:read", "--tenant", tenant, "--expires", "30d")
    )
    assert created.code == 0, created.err
    key = created.out.strip()
    assert key.startswith("hf_")
    assert (await hookfast("deliveries", "list", env={"HOOKFAST_API_KEY": key})).code == 0
    [listed] = (await hookfast("keys", "list", "--tenant", tenant, "--json")).json["data"]
    assert listed["id"] in created.err
    assert key not in (await hookfast("keys", "list", "--tenant", tenant)).out
    revoked = await hookfast("keys", "revoke", listed["id"])
    assert revoked.err == f"{listed['id']} is revoked.\n"
    assert (await hookfast("keys", "list", "--tenant", tenant, "--json")).json["data"] == []


async def test_tenant_key_cannot_use_operator_commands(hookfast: Run, tenant: str) -> None:
    key = (await hookfast("keys", "create", "x", "--scope", "tenant", "--tenant", tenant)).out
    ended = await hookfast("tenants", "list", env={"HOOKFAST_API_KEY": key.strip()})
    assert ended.code == 1
    assert "This needs a key with the scope operator" in ended.err


async def test_an_endpoint_is_tested_verified_and_counted(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json, receiver: Receiver
) -> None:
    path = f"/endpoints/{endpoint['id']}"
    patch = {"url": receiver.url("/hook"), "verification": "header"}
    receiver.routes["/hook"] = "/challenge"
    assert (await client.patch(path, json=patch)).status_code == 200
    verified = await hookfast("endpoints", "verify", endpoint["id"])
    assert (verified.code, verified.error_text) == (0, "It agreed to **.")
    receiver.routes["/hook"] = "/status/503"
    tested = await hookfast("endpoints", "test", endpoint["id"], TYPE)
    assert tested.code == 1
    assert "503 Service Unavailable" in tested.out
    failed = await hookfast("endpoints", "verify", endpoint["id"])
    assert (failed.code, failed.out) == (1, "")
    assert "503" in failed.err
    receiver.routes["/hook"] = "/ok"
    tested = await hookfast("endpoints", "test", endpoint["id"], TYPE, "--json")
    assert (tested.code, tested.json["succeeded"]) == (0, True)
    counted = await hookfast("endpoints", "stats", endpoint["id"], "--since", "2h")
    assert counted.code == 0, counted.err
    assert "deliveries  0" in counted.out
