"""Prints where the settings of an endpoint and of a source appear, as a JSON object of texts.

It runs in a process of its own, on a copy of the product's source in which more settings are
declared, and creates both resources with the members that its standard input names.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
from fastapi import FastAPI
from typer.testing import CliRunner

from hookfast import cli
from hookfast.process import run_and_end
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import migrate
from tests.integration.dashboard.visitor import Visitor, signed_in
from tests.integration.portal.links import customer
from tests.support.api_client import OPERATOR_KEY, client_with, development_settings
from tests.support.api_server import api_server

Given = dict[str, dict[str, Any]]


async def appearances(given: Given, home: Path) -> dict[str, Any]:
    """Return what the API, its pages and the command line say about the two resources."""
    url = f"sqlite+aiosqlite:///{home}/hookfast.db"
    database = Database(url)
    await migrate(database)
    await database.close()
    async with api_server(development_settings(url, home)) as server:
        app: Any = server.uvicorn.config.app
        async with client_with(app, OPERATOR_KEY) as client:
            found = await _found(app, client, given)
        env = {"HOOKFAST_URL": server.url, "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY, "COLUMNS": "200"}
        for noun in ("endpoint", "source"):
            for name, arguments in (
                ("help", ("create", "--help")),
                ("show", ("show", found[noun]["id"])),
            ):
                run = CliRunner(env=env).invoke
                result = await asyncio.to_thread(run, cli.app, [f"{noun}s", *arguments])
                found[f"{noun} command {name}"] = result.output
    return found


async def _found(app: FastAPI, client: httpx2.AsyncClient, given: Given) -> dict[str, Any]:
    tenant = (await client.post("/tenants", json={"name": "Acme"})).json()["id"]
    found: dict[str, Any] = {"document": app.openapi()}
    for noun in ("endpoint", "source"):
        created = await client.post(f"/{noun}s", json=given[noun] | {"tenant_id": tenant})
        assert created.status_code == 201, created.text
        found[noun] = (await client.get(f"/{noun}s/{created.json()['id']}")).json()
        [entry] = (await client.get("/audit", params={"resource_id": found[noun]["id"]})).json()[
            "data"
        ]
        found[f"{noun} audit log"] = entry["changes"]

    polled = {"tenant_id": tenant, "mode": "poll", "spare_tokens": 7}
    found["polled"] = (await client.post("/endpoints", json=polled)).json()

    async def pages(visitor: Visitor, site: str, **paths: str) -> None:
        for name, path in paths.items():
            page = await visitor.get(f"/{site}/{path}")
            assert page.status_code == 200, page.text
            found[f"{site} {name}"] = page.text

    endpoint, source = (f"{noun}s/{found[noun]['id']}" for noun in ("endpoint", "source"))
    async with signed_in(app, OPERATOR_KEY) as visitor:
        await pages(
            visitor,
            "dashboard",
            new="endpoints/new",
            form=f"{endpoint}/settings/limits",
            page=endpoint,
            list="endpoints",
            source_new="sources/new",
            source_form=f"{source}/settings",
            source_page=source,
        )
        fields = given["typed"]
        answer = await visitor.post(f"/dashboard/{endpoint}/settings/limits", **fields)
        assert answer.status_code == 303, answer.text
        found["endpoint typed"] = (await client.get(f"/{endpoint}")).json()
    async with customer(app, client, tenant) as visitor:
        await pages(visitor, "portal", new="endpoints/new", form=f"{endpoint}/edit", page=endpoint)
    return found


def _print_appearances() -> None:
    with TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(appearances(json.load(sys.stdin), Path(folder)))))


if __name__ == "__main__":
    run_and_end(_print_appearances)
