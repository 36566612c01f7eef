"""Every change leaves one entry in the audit log, made in the transaction of the change. The
writing operations are those of the OpenAPI document: a new operation needs a scene, or a reason
for having none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import insert, text
from structlog.testing import capture_logs

from api.context.context import Context
from api.forms.jobs import JOB_RESPONSES
from hookfast.storage.tables import EndpointHealth
from tests.integration.api.audit.log import entries
from tests.integration.api.audit.scenes import (
    AUDITED,
    DISABLE,
    NOT_AUDITED,
    RECEIVER,
    SCENES,
    STORED,
    WRITING,
    Scene,
)
from tests.integration.api.shared.operations import Operation
from tests.integration.api.shared.rows import all_rows
from tests.support.api_client import KeyClient, Make

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


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
    for method, path, body in scene.before:
        answer = await client.request(method, path.format(**ids), json=body)
        assert answer.is_success, answer.text


@pytest.mark.parametrize("operation", AUDITED, ids=str)
async def test_change_leaves_exactly_one_entry_and_a_rejected_or_unlogged_one_none(
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

    if operation in STORED:
        await assert_rolled_back_without_its_entry(client, context, operation, things)

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


async def assert_rolled_back_without_its_entry(
    client: httpx2.AsyncClient, context: Context, operation: Operation, ids: dict[str, str]
) -> None:
    """Check that the change is not stored if its entry cannot be."""
    before = await all_rows(context)
    async with broken_log(context):
        with capture_logs():  # printing the traceback would take longer than the rest of the test
            answer = await act(client, operation, ids, body=SCENES.of(operation).body)
    assert answer.status_code == 500, answer.text
    assert await all_rows(context) == before


@asynccontextmanager
async def broken_log(context: Context) -> AsyncIterator[None]:
    """Make every write to the audit log fail in this block. The trigger is dropped afterwards:
    PostgreSQL would otherwise need a new database for the next test."""
    make = ["CREATE TRIGGER broken BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'broken'); END"]
    drop = ["DROP TRIGGER broken"]
    if context.database.kind == "postgresql":
        make = [
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'broken'; END $$",
            "CREATE TRIGGER broken BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION broken()",
        ]
        drop = ["DROP FUNCTION broken CASCADE"]
    await _run(context, make)
    yield
    await _run(context, drop)


async def _run(context: Context, statements: list[str]) -> None:
    async with context.database.write() as connection:
        for statement in statements:
            await connection.execute(text(statement))


DRY = [
    each
    for each in WRITING
    if each.document["responses"].get("200", {}).get("description")
    == JOB_RESPONSES[200]["description"]
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


UNAUDITED = [each for each in WRITING if str(each) in NOT_AUDITED]


@pytest.mark.parametrize("operation", UNAUDITED, ids=str)
async def test_action_without_effect_leaves_no_entry(
    client: httpx2.AsyncClient, context: Context, things: dict[str, str], operation: Operation
) -> None:
    before = await entries(context)
    answer = await act(client, operation, things, body=NOT_AUDITED[str(operation)])
    assert answer.is_success, answer.text
    assert await entries(context) == before


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
async def test_operation_that_changes_nothing_leaves_no_entry(
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


async def test_first_rsa_key_is_logged_with_the_caller_that_needed_it(
    client: httpx2.AsyncClient, context: Context, make_endpoint: Make, make_tenant: Make
) -> None:
    tenant = (await make_tenant())["id"]
    for _ in range(2):
        await make_endpoint(tenant_id=tenant, signatures=["rsa"])
    [made] = await entries(context, action="signing_key.create")
    assert (made.actor, made.tenant_id) == ("operator", None)
    assert sorted(made.changes) == ["kind", "signs_from"]


async def test_first_operator_key_is_logged_as_made_by_the_cli(
    app: FastAPI, context: Context
) -> None:
    *_, made = await entries(context)
    assert (made.action, made.actor, made.key_id) == ("api_key.create", "cli", None)
    assert made.changes["scope"] == {"after": "operator"}


async def test_probe_of_an_endpoint_is_logged_although_its_state_stays(
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


def test_every_scene_and_exception_names_an_existing_operation() -> None:
    assert SCENES.found.keys() | NOT_AUDITED.keys() <= {str(each) for each in WRITING}
