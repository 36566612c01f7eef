"""The client for JavaScript: built and tested with node against a running service, and compared
with the rest of the repository without node."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from hookfast.version import VERSION
from tests.docs.fenced import DOCS, ROOT, blocks
from tests.support.api_client import OPERATOR_KEY, development_settings
from tests.support.api_server import ApiServer, api_server

pytestmark = pytest.mark.anyio

PACKAGE = ROOT / "packages" / "client-js"
DOCUMENT = json.loads((DOCS / "openapi.json").read_text())
NEEDS_NODE = pytest.mark.skipif(
    shutil.which("npm") is None,
    reason="there is no node (20.19 or later), so the client for JavaScript is not tested",
)


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with api_server(development_settings(sqlite_url, tmp_path)) as server:
        yield server


@pytest.mark.slow  # it installs a compiler
@pytest.mark.timeout(600)
@NEEDS_NODE
async def test_the_package_builds_and_works_against_a_running_service(
    server: ApiServer, tmp_path: Path
) -> None:
    # in a copy, so that the checkout stays as it is
    ignored = shutil.ignore_patterns("node_modules", "dist", "*.tgz", "schema.ts")
    folder = tmp_path / "packages" / "client-js"
    shutil.copytree(PACKAGE, folder, ignore=ignored)
    (tmp_path / "docs").mkdir()
    shutil.copy(DOCS / "openapi.json", tmp_path / "docs")
    await _run("npm", "ci", folder=folder, server=server)
    await _run("npm", "run", "build", folder=folder, server=server)
    tested = await _run("npm", "test", folder=folder, server=server)
    assert "# skipped 0" in tested
    assert "# fail 0" in tested

    [packed] = json.loads(await _run("npm", "pack", "--json", folder=folder, server=server))
    names = {Path(one["path"]) for one in packed["files"]}
    outside = {name.as_posix() for name in names if name.parts[0] != "dist"}
    assert outside == {"LICENSE", "README.md", "package.json"}
    assert {name.stem for name in names if name.suffix == ".js"} == {
        path.stem for path in (folder / "src").glob("*.ts")
    }

    [example] = [one for one in blocks(DOCS / "client-js.md") if one.language == "js"]
    (folder / "example.mjs").write_text(example.text)
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    async with httpx2.AsyncClient(base_url=f"{server.url}/v1", headers=headers) as client:
        tenant = (await client.post("/tenants", json={"name": "Acme"})).json()["id"]
    printed = await _run("node", "example.mjs", folder=folder, server=server, TENANT=tenant)
    assert "unknown_event_type" in printed


async def _run(*command: str, folder: Path, server: ApiServer, **environment: str) -> str:
    """Run a command in the package's folder, and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=os.environ
        | {"HOOKFAST_URL": server.url, "HOOKFAST_API_KEY": OPERATOR_KEY}
        | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, (stdout + stderr).decode()
    return stdout.decode()


def test_its_version_is_that_of_the_server() -> None:
    for name in ("package.json", "package-lock.json"):
        assert json.loads((PACKAGE / name).read_text())["version"] == VERSION
    assert f'VERSION = "{VERSION}"' in (PACKAGE / "src" / "version.ts").read_text()


def test_every_route_that_it_and_its_guide_name_exists() -> None:
    pages = [*PACKAGE.glob("src/*.ts"), *PACKAGE.glob("test/*.js"), DOCS / "client-js.md"]
    named = {
        path
        for page in pages
        if page.name != "schema.ts"
        for path in re.findall(
            r'(?:get|list|post|put|patch|delete)\("(/v1[^"]*)"', page.read_text()
        )
    }
    assert "/v1/events" in named
    assert named <= DOCUMENT["paths"].keys()


def test_emits_have_an_idempotency_key_in_the_document() -> None:
    for path in ("/v1/events", "/v1/events/batch"):
        parameters = DOCUMENT["paths"][path]["post"]["parameters"]
        assert "Idempotency-Key" in {one["name"] for one in parameters}


def test_the_lock_file_pins_every_package_and_names_no_download_address() -> None:
    lock = json.loads((PACKAGE / "package-lock.json").read_text())
    for name, package in lock["packages"].items():
        assert "resolved" not in package
        assert name == "" or package["integrity"].startswith("sha512-")
