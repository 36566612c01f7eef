"""Every change leaves one entry in the audit log, made in the transaction of the change. The
writing operations are those of the OpenAPI document: a new one has to be given a scene below, or a
reason for having none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import insert, select, text
from sqlmodel import SQLModel
from structlog.testing import capture_logs
from temporalio.testing import WorkflowEnvironment

from api.context import Context
from api.jobs import JOB_ANSWERS
from hookfast.storage import audit
from hookfast.storage.audit import AuditFilter
from hookfast.storage.audit_table import AuditEntry
from hookfast.storage.control_tables import EndpointHealth
from tests.api_client import (
    Json,
    KeyClient,
    Make,
    MakeEventType,
    assert_problem,
)
from tests.emitted import change
from tests.integration.api.standing.test_isolation import OPERATIONS, Operation
from tests.seed_inbox import SOURCE_SECRET, seed_entry, seed_source
from tests.temporal_server import temporal_server

pytestmark = pytest.mark.anyio

EVENT_TYPE = "order.invoice.paid"
RECEIVER = "http://127.0.0.1:9/hook"
HUSH = "hush-this-is-secret"

EVENT = {"tenant_id": "{tenant_id}", "type": EVENT_TYPE, "data": {}}
NOT_AUDITED: dict[str, Json | None] = {
    # an event is a row of its own, which nobody changes: GET /events lists them
    "POST /events": EVENT,
    "POST /events/batch": {"events": [EVENT]},
    # these ask the receiver, and change nothing
    "POST /endpoints/{endpoint_id}/test": {"type": EVENT_TYPE},
    "POST /endpoints/{endpoint_id}/verify": None,
}
"""Writing operations that leave no entry, with a body, and why."""


@dataclass(frozen=True, slots=True)
class Scene:
    """How a writing operation succeeds: its body, what is done before, and the entry it leaves.
    `about` is what that is about: the name of a parameter, or `id`, which is the answer's."""

    action: str
    about: str
    body: Json | None = None
    before: tuple[str, ...] = ()
    temporal: bool = False


@dataclass(frozen=True, slots=True)
class Scenes:
    """Scenes by their operation."""

    found: dict[str, Scene] = field(default_factory=dict)

    def of(self, operation: Operation) -> Scene:
        assert str(operation) in self.found, "give it a scene, or say in NOT_AUDITED why not"
        return self.found[str(operation)]


ENDPOINT = {"tenant_id": "{tenant_id}", "url": RECEIVER, "verification": "none", "events": ["**"]}
DISABLE = "/endpoints/{endpoint_id}/disable"
SOURCE = {
    "tenant_id": "{tenant_id}",
    "name": "x",
    "provider": "github",
    "secrets": [SOURCE_SECRET],
}
SCENES = Scenes(
    {
        "POST /tenants": Scene("tenant.create", "id", {"name": "New"}),
        "PATCH /tenants/{tenant_id}": Scene("tenant.update", "tenant_id", {"name": "Other"}),
        "DELETE /tenants/{tenant_id}": Scene("tenant.delete", "tenant_id"),
        "POST /api-keys": Scene("api_key.create", "id", {"name": "x", "scope": "emit"}),
        "POST /tenants/{tenant_id}/api-keys": Scene("api_key.create", "id", {"name": "x"}),
        "DELETE /api-keys/{key_id}": Scene("api_key.revoke", "key_id"),
        "POST /tenants/{tenant_id}/portal-links": Scene(
            "portal_link.create", "tenant_id", {"scope": "tenant"}
        ),
        "PUT /event-types/{name}": Scene("event_type.update", "name", {"description": "new"}),
        "DELETE /event-types/{name}": Scene("event_type.delete", "name"),
        "POST /endpoints": Scene("endpoint.create", "id", ENDPOINT),
        "PATCH /endpoints/{endpoint_id}": Scene(
            "endpoint.update", "endpoint_id", {"max_in_flight": 7}
        ),
        "DELETE /endpoints/{endpoint_id}": Scene("endpoint.delete", "endpoint_id"),
        "POST /endpoints/{endpoint_id}/pause": Scene("endpoint.pause", "endpoint_id"),
        "POST /endpoints/{endpoint_id}/resume": Scene(
            "endpoint.resume", "endpoint_id", before=("/endpoints/{endpoint_id}/pause",)
        ),
        "POST /endpoints/{endpoint_id}/disable": Scene("endpoint.disable", "endpoint_id"),
        "POST /endpoints/{endpoint_id}/enable": Scene(
            "endpoint.enable", "endpoint_id", {"redrive": False}, before=(DISABLE,)
        ),
        "POST /endpoints/{endpoint_id}/rotate-secret": Scene(
            "endpoint.rotate_secret", "endpoint_id", {"overlap_seconds": 60}
        ),
        "POST /endpoints/{endpoint_id}/recover": Scene(
            "endpoint.recover", "endpoint_id", {"since": "2026-01-01T00:00:00Z"}
        ),
        "POST /subscriptions": Scene(
            "subscription.create", "id", {"endpoint_id": "{endpoint_id}", "events": ["**"]}
        ),
        "PATCH /subscriptions/{subscription_id}": Scene(
            "subscription.update", "subscription_id", {"active": False}
        ),
        "DELETE /subscriptions/{subscription_id}": Scene("subscription.delete", "subscription_id"),
        "POST /sources": Scene("source.create", "id", SOURCE),
        "PATCH /sources/{source_id}": Scene("source.update", "source_id", {"active": False}),
        "DELETE /sources/{source_id}": Scene("source.delete", "source_id"),
        "POST /sources/{source_id}/rotate-secret": Scene(
            "source.rotate_secret", "source_id", {"overlap_seconds": 60}
        ),
        "POST /retention/runs": Scene("retention.run", "id", {"dry_run": False}, temporal=True),
        "POST /inbox/{inbox_id}/retry": Scene("inbox.retry", "inbox_id"),
        "POST /events/{event_id}/replay": Scene("event.replay", "event_id", {"include_new": True}),
        "POST /dead-letters/redrive": Scene("dead_letter.redrive", "id", {"all": True}),
        "POST /deliveries/actions": Scene(
            "delivery.cancel", "id", {"action": "cancel", "all": True}
        ),
        "POST /jobs/{job_id}/cancel": Scene("job.cancel", "job_id"),
        **{
            f"POST /deliveries/{{delivery_id}}/{action}": Scene(
                f"delivery.{action}", "delivery_id", temporal=True
            )
            for action in ("pause", "resume", "resend", "cancel")
        },
    }
)


def _needs_temporal(operation: Operation) -> bool:
    scene = SCENES.found.get(str(operation))
    return scene is not None and scene.temporal


WRITING = [each for each in OPERATIONS if each.method != "GET"]
AUDITED = [each for each in WRITING if str(each) not in NOT_AUDITED]
# what steers one delivery changes nothing in the database: it is a signal to a workflow
STORED = [each for each in AUDITED if not _needs_temporal(each)]


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A real dev server, shared by the tests of one process."""
    async with temporal_server() as environment:
        yield environment


@pytest.fixture(autouse=True)
def temporal_address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Temporal is: away, on port 9 (discard), but for a scene that needs it."""
    address = "127.0.0.1:9"
    callspec = getattr(request.node, "callspec", None)
    operation = None if callspec is None else callspec.params.get("operation")
    if isinstance(operation, Operation) and _needs_temporal(operation):
        environment: WorkflowEnvironment = request.getfixturevalue("temporal")
        address = environment.client.service_client.config.target_host
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)


@pytest.fixture
async def things(
    temporal_address: None,
    client: httpx2.AsyncClient,
    context: Context,
    make_tenant: Make,
    make_endpoint: Make,
    make_event_type: MakeEventType,
) -> dict[str, str]:
    """The ids of a tenant that has one of everything, by the names of path parameters."""
    await make_event_type(EVENT_TYPE)
    tenant = await make_tenant(name="Acme")
    endpoint = await make_endpoint(tenant_id=tenant["id"], events=["**"])
    key = await client.post(f"/tenants/{tenant['id']}/api-keys", json={"name": "theirs"})
    form = {"tenant_id": tenant["id"], "type": EVENT_TYPE, "data": {}}
    event = (await client.post("/events", json=form)).json()
    delivery = (await client.get(f"/events/{event['id']}/deliveries")).json()["data"][0]
    job = await client.post(f"/events/{event['id']}/replay", json={})
    assert job.status_code == 202, job.text
    source = await seed_source(context.database, tenant["id"], keyring=context.keyring)
    return {
        "name": EVENT_TYPE,
        "tenant_id": tenant["id"],
        "endpoint_id": endpoint["id"],
        "subscription_id": endpoint["subscription"]["id"],
        "key_id": key.json()["id"],
        "event_id": event["id"],
        "delivery_id": delivery["id"],
        "job_id": job.json()["id"],
        "source_id": source,
        "inbox_id": await seed_entry(context.database, source, tenant["id"]),
    }


async def entries(context: Context, **chosen: Any) -> list[AuditEntry]:
    """The newest entries that fit, newest first."""
    async with context.database.read() as connection:
        return await audit.list_page(connection, AuditFilter(**chosen), after=None, limit=100)


def filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: filled(member, ids) for name, member in value.items()}
    if isinstance(value, list):
        return [filled(member, ids) for member in value]
    return value.format(**ids) if isinstance(value, str) else value


async def act(
    client: httpx2.AsyncClient, operation: Operation, ids: dict[str, str], *, body: Any
) -> httpx2.Response:
    return await client.request(
        operation.method, operation.path.format(**ids), json=filled(body, ids)
    )


async def prepare(client: httpx2.AsyncClient, scene: Scene, ids: dict[str, str]) -> None:
    for path in scene.before:
        answer = await client.post(path.format(**ids))
        assert answer.is_success, answer.text


# -- every operation


@pytest.mark.parametrize("operation", AUDITED, ids=str)
async def test_a_change_leaves_exactly_one_entry_and_what_is_refused_none(
    client: httpx2.AsyncClient,
    context: Context,
    key_client: KeyClient,
    things: dict[str, str],
    operation: Operation,
) -> None:
    scene = SCENES.of(operation)
    await prepare(client, scene, things)
    async with key_client(things["tenant_id"], scope="tenant:read") as reader:
        before = await entries(context)
        refused = [await act(reader, operation, things, body=scene.body)]
    if operation.parameters:
        unknown = {name: value.partition("_")[0] + "_" + "0" * 32 for name, value in things.items()}
        body = filled(scene.body, things)
        if operation.parameters != ["name"] or operation.method != "PUT":
            refused.append(await act(client, operation, unknown, body=body))
    if "requestBody" in operation.document:
        wrong = {**(scene.body or {}), "no_such_member": 1}
        refused.append(await act(client, operation, things, body=wrong))
    assert {answer.status_code for answer in refused} <= {403, 404, 422}
    assert await entries(context) == before

    answer = await act(client, operation, things, body=scene.body)
    assert answer.is_success, answer.text
    [entry, *others] = await entries(context)
    assert others == before
    assert entry.action == scene.action
    about = answer.json()["id"] if scene.about == "id" else things[scene.about]
    assert entry.resource_id == about
    assert entry.actor == "operator"
    assert entry.key_id is not None
    assert entry.request_id == answer.headers["X-Request-Id"]
    assert entry.client_address == "127.0.0.1"
    if "tenant_id" in operation.parameters or "endpoint_id" in operation.parameters:
        assert entry.tenant_id == things["tenant_id"]


DRY = [
    each
    for each in WRITING
    if each.document["responses"].get("200", {}).get("description")
    == JOB_ANSWERS[200]["description"]
]


@pytest.mark.parametrize("operation", DRY, ids=str)
async def test_a_dry_run_leaves_no_entry(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str], operation: Operation
) -> None:
    before = await entries(context)
    body = {**(SCENES.of(operation).body or {}), "dry_run": True}
    answer = await act(client, operation, things, body=body)
    assert answer.status_code == 200, answer.text
    assert await entries(context) == before


async def everything(context: Context) -> dict[str, list[Any]]:
    """Every row of every table but the notes of when a key was last used."""
    stored = {}
    async with context.database.read() as connection:
        for table in SQLModel.metadata.sorted_tables:
            columns = [column for column in table.c if column.name != "last_used_at"]
            rows = await connection.execute(select(*columns).order_by(*table.primary_key))
            stored[table.name] = [tuple(row) for row in rows]
    return stored


async def break_the_log(context: Context) -> None:
    """From now on nothing can be added to it."""
    statements = [
        "CREATE TRIGGER broken BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'broken'); END"
    ]
    if context.database.kind == "postgresql":
        statements = [
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'broken'; END $$",
            "CREATE TRIGGER broken BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION broken()",
        ]
    async with context.database.write() as connection:
        for statement in statements:
            await connection.execute(text(statement))


@pytest.mark.parametrize("operation", STORED, ids=str)
async def test_a_change_that_cannot_be_logged_is_not_made(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str], operation: Operation
) -> None:
    scene = SCENES.of(operation)
    await prepare(client, scene, things)
    await break_the_log(context)
    before = await everything(context)
    with capture_logs():  # printing the traceback would take longer than all the rest
        answer = await act(client, operation, things, body=scene.body)
    assert answer.status_code == 500, answer.text
    assert await everything(context) == before


UNAUDITED = [each for each in WRITING if str(each) in NOT_AUDITED]


@pytest.mark.parametrize("operation", UNAUDITED, ids=str)
async def test_what_changes_nothing_that_is_there_leaves_no_entry(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str], operation: Operation
) -> None:
    before = await entries(context)
    answer = await act(client, operation, things, body=NOT_AUDITED[str(operation)])
    assert answer.is_success, answer.text
    assert await entries(context) == before


# -- nothing changed, or more than one thing


REPEATS = [
    ("PATCH", "/tenants/{tenant_id}", {"name": "Acme"}, ()),
    ("PUT", "/event-types/{name}", {}, ()),
    ("PATCH", "/endpoints/{endpoint_id}", {"url": RECEIVER, "headers": {}}, ()),
    ("PATCH", "/subscriptions/{subscription_id}", {"events": ["**"]}, ()),
    ("POST", "/endpoints/{endpoint_id}/enable", None, ()),
    ("POST", "/endpoints/{endpoint_id}/resume", None, ()),
    ("POST", "/endpoints/{endpoint_id}/disable", None, (DISABLE,)),
    (
        "POST",
        "/endpoints/{endpoint_id}/pause",
        None,
        ("/endpoints/{endpoint_id}/pause",),
    ),
    ("POST", "/jobs/{job_id}/cancel", None, ("/jobs/{job_id}/cancel",)),
]


@pytest.mark.parametrize(("method", "path", "body", "before"), REPEATS)
async def test_what_changes_nothing_leaves_no_entry(
    client: httpx2.AsyncClient,
    context: Context,
    things: dict[str, str],
    method: str,
    path: str,
    body: Any,
    before: tuple[str, ...],
) -> None:
    for earlier in before:
        assert (await client.post(earlier.format(**things))).is_success
    known = await entries(context)
    answer = await client.request(method, path.format(**things), json=body)
    assert answer.is_success, answer.text
    assert await entries(context) == known


async def test_enabling_with_a_redrive_is_two_changes(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str]
) -> None:
    await client.post(DISABLE.format(**things))
    path = f"/endpoints/{things['endpoint_id']}/enable"
    answer = await client.post(path, json={"redrive": True})
    redrive, enable, *_ = await entries(context)
    assert (enable.action, enable.resource_id) == ("endpoint.enable", things["endpoint_id"])
    job = answer.json()["job"]["id"]
    assert (redrive.action, redrive.resource_id) == ("dead_letter.redrive", job)
    assert redrive.tenant_id == things["tenant_id"]


async def test_the_first_key_that_rsa_needs_is_told_of_with_who_needed_it(
    client: httpx2.AsyncClient, context: Context, make_endpoint: Make, make_tenant: Make
) -> None:
    tenant = (await make_tenant())["id"]
    for _ in range(2):
        await make_endpoint(tenant_id=tenant, signatures=["rsa"])
    [made] = await entries(context, action="signing_key.create")
    assert (made.actor, made.tenant_id) == ("operator", None)
    assert sorted(made.changes) == ["kind", "signs_from"]


async def test_the_first_operator_key_was_made_on_the_command_line(
    app: FastAPI, context: Context
) -> None:
    [made] = await entries(context)
    assert (made.action, made.actor, made.key_id) == ("api_key.create", "cli", None)
    assert made.changes["scope"] == {"after": "operator"}


# -- what an entry says


async def test_an_entry_says_what_was_and_what_is(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str]
) -> None:
    path = f"/endpoints/{things['endpoint_id']}"
    await client.patch(path, json={"description": "till", "timeout_seconds": 7})
    await client.post(f"{path}/pause")
    paused, updated, *_ = await entries(context, resource_id=things["endpoint_id"])
    assert updated.changes == {
        "description": {"before": "", "after": "till"},
        "timeout_seconds": {"before": 5, "after": 7},
    }
    assert paused.changes == {
        "state": {"before": "enabled", "after": "paused"},
        "state_reason": {"before": None, "after": "Paused by request."},
    }


async def test_a_replaced_event_type_is_told_with_its_schema(
    client: httpx2.AsyncClient, context: Context, make_event_type: MakeEventType
) -> None:
    await make_event_type(EVENT_TYPE, schema={"type": "object"})
    await make_event_type(EVENT_TYPE, description="paid")
    updated, created = await entries(context, resource_id=EVENT_TYPE)
    assert created.changes == {"schema": {"after": {"type": "object"}}}
    assert updated.changes == {
        "description": {"before": "", "after": "paid"},
        "schema": {"before": {"type": "object"}, "after": None},
    }


async def test_a_deleted_endpoint_is_told_as_it_was(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str]
) -> None:
    await client.delete(f"/endpoints/{things['endpoint_id']}")
    [entry, *_] = await entries(context)
    assert entry.changes["url"] == {"before": RECEIVER}
    assert entry.changes["events"] == {"before": ["**"]}


async def test_a_job_is_told_with_what_it_acts_on(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str]
) -> None:
    await change(context, things["delivery_id"], status="dead")
    body = {"filter": {"endpoint_id": things["endpoint_id"]}, "rate_per_second": 3.0}
    job = (await client.post("/dead-letters/redrive", json=body)).json()
    [entry, *_] = await entries(context)
    told = {name: value["after"] for name, value in entry.changes.items()}
    assert told == {
        "job_id": job["id"],
        "kind": "redrive",
        "action": "resend",
        "filter": job["filter"],
        "total": 1,
        "rate_per_second": 3.0,
    }


async def test_the_log_holds_no_secret(
    client: httpx2.AsyncClient, context: Context, make_tenant: Make, make_endpoint: Make
) -> None:
    tenant = (await make_tenant())["id"]
    key = (await client.post(f"/tenants/{tenant}/api-keys", json={"name": "x"})).json()["key"]
    endpoint = await make_endpoint(
        tenant_id=tenant,
        url=f"{RECEIVER}?token={HUSH}",
        headers={"Authorization": f"Bearer {HUSH}"},
        signatures=["hook", "standard-ed25519"],
    )
    path = f"/endpoints/{endpoint['id']}"
    for patch in (
        {"url": f"{RECEIVER}?token={HUSH}-2"},
        {"headers": {"Authorization": f"Bearer {HUSH}-2", "X-Other": HUSH}},
    ):
        assert (await client.patch(path, json=patch)).status_code == 200
    rotated = (await client.post(f"{path}/rotate-secret")).json()
    assert (await client.delete(path)).status_code == 204

    told = await entries(context, resource_id=endpoint["id"])
    assert [entry.action for entry in told] == [
        "endpoint.delete",
        "endpoint.rotate_secret",
        "endpoint.update",
        "endpoint.update",
        "endpoint.create",
    ]
    _, rotation, headers, url, _ = told
    assert list(url.changes) == ["url"]
    assert headers.changes == {
        "headers.Authorization": {"before": "***", "after": "***"},
        "headers.X-Other": {"after": "***"},
    }
    assert [len(rotation.changes["secrets"][side]) for side in ("before", "after")] == [2, 4]
    everything_told = json.dumps(
        [entry.model_dump(mode="json") for entry in await entries(context)]
    )
    for secret in (HUSH, key, endpoint["secret"], rotated["secret"], "whsec_", "sealed"):
        assert secret not in everything_told


# -- looking at it


async def page(client: httpx2.AsyncClient, **params: Any) -> Json:
    answer = await client.get("/audit", params=params)
    assert answer.status_code == 200, answer.text
    document: Json = answer.json()
    return document


async def actions(client: httpx2.AsyncClient, **params: Any) -> list[str]:
    return [entry["action"] for entry in (await page(client, **params))["data"]]


async def test_the_list_is_newest_first_in_pages(
    client: httpx2.AsyncClient, things: dict[str, str]
) -> None:
    whole = await page(client)
    assert [entry["action"] for entry in whole["data"]] == [
        "event.replay",
        "api_key.create",
        "endpoint.create",
        "tenant.create",
        "event_type.create",
        "api_key.create",
    ]
    found: list[Json] = []
    cursor: Json = {}
    while len(found) < len(whole["data"]):
        part = await page(client, limit=2, **cursor)
        found += part["data"]
        cursor = {"cursor": part["next_cursor"]}
    assert found == whole["data"]
    assert part["next_cursor"] is None


async def test_filters_add_up(client: httpx2.AsyncClient, things: dict[str, str]) -> None:
    path = f"/endpoints/{things['endpoint_id']}"
    await client.post(f"{path}/pause")
    [paused, created] = (await page(client, resource_id=things["endpoint_id"]))["data"]
    assert (paused["action"], created["action"]) == ("endpoint.pause", "endpoint.create")
    assert await actions(client, action="endpoint.pause") == ["endpoint.pause"]
    assert await actions(client, since=paused["at"]) == ["endpoint.pause"]
    assert await actions(client, resource_id=EVENT_TYPE) == ["event_type.create"]
    assert await actions(client, resource_id=EVENT_TYPE, action="endpoint.pause") == []
    assert await actions(client, key_id=paused["key_id"], until=created["at"]) == [
        "tenant.create",
        "event_type.create",
    ]
    assert await actions(client, tenant_id=things["tenant_id"]) == [
        "endpoint.pause",
        "event.replay",
        "api_key.create",
        "endpoint.create",
        "tenant.create",
    ]


@pytest.mark.parametrize(
    "params", [{"action": "endpoint.eat"}, {"key_id": "1"}, {"since": "noon"}, {"who": "me"}]
)
async def test_a_filter_that_is_none_is_refused(
    client: httpx2.AsyncClient, things: dict[str, str], params: Json
) -> None:
    assert (await client.get("/audit", params=params)).status_code == 422


@pytest.mark.parametrize("scope", ["tenant", "tenant:read"])
async def test_a_tenant_sees_what_was_done_to_it_and_not_from_where_the_operator_did(
    client: httpx2.AsyncClient,
    key_client: KeyClient,
    make_tenant: Make,
    things: dict[str, str],
    scope: str,
) -> None:
    path = f"/endpoints/{things['endpoint_id']}"
    other = (await make_tenant())["id"]
    async with (
        key_client(things["tenant_id"]) as writer,
        key_client(things["tenant_id"], scope=scope) as theirs,
        key_client(other, scope=scope) as stranger,
    ):
        await client.post(f"{path}/pause")
        await writer.post(f"{path}/resume")
        resumed, paused = (await page(theirs, resource_id=things["endpoint_id"], limit=2))["data"]
        assert (resumed["actor"], resumed["client_address"]) == ("tenant", "127.0.0.1")
        assert resumed["key_id"].startswith("key_")
        assert (paused["actor"], paused["key_id"]) == ("operator", None)
        assert paused["client_address"] is None
        assert set(await actions(stranger)) == {"tenant.create", "api_key.create"}
        assert await actions(stranger, resource_id=things["endpoint_id"]) == []
        answer = await stranger.get("/audit", params={"tenant_id": things["tenant_id"]})
        assert_problem(answer, 404, code="not_found")
    [shown, *_] = (await page(client, action="endpoint.pause"))["data"]
    assert shown["key_id"] is not None
    assert shown["client_address"] == "127.0.0.1"


async def test_an_emitting_key_sees_nothing(key_client: KeyClient, things: dict[str, str]) -> None:
    async with key_client(things["tenant_id"], scope="emit") as theirs:
        assert_problem(await theirs.get("/audit"), 403, code="forbidden")


async def test_the_log_of_a_deleted_tenant_stays(
    client: httpx2.AsyncClient, things: dict[str, str]
) -> None:
    await client.delete(f"/tenants/{things['tenant_id']}")
    [first, *_] = await actions(client, tenant_id=things["tenant_id"])
    assert first == "tenant.delete"


async def test_probing_an_endpoint_now_is_told_of_although_its_state_stays(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str]
) -> None:
    now = context.clock()
    health = {"endpoint_id": things["endpoint_id"], "circuit": "open", "episode": 1}
    later = {"opened_at": now, "next_probe_at": now + timedelta(minutes=5)}
    async with context.database.write() as connection:
        await connection.execute(
            insert(EndpointHealth.__table__), {**health, **later, "consecutive_failures": 5}
        )
    await client.post(f"/endpoints/{things['endpoint_id']}/resume")
    [entry, *_] = await entries(context)
    assert (entry.action, entry.changes) == ("endpoint.resume", {})


def test_every_scene_and_every_exception_is_of_an_operation_that_exists() -> None:
    assert SCENES.found.keys() | NOT_AUDITED.keys() <= {str(each) for each in WRITING}
