"""A real Chromium and a real server. `CHROMIUM` names the browser; the default is Debian's.

Without a window, Debian has it as `chromium-headless-shell`, which takes half of the CPU time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import expect, sync_playwright

from api.app import create_app
from hookfast.cli.api import server_config
from hookfast.settings.settings import Settings
from hookfast.storage.database.engine import Database
from tests.browser.chromium import Chromium
from tests.browser.customers import Customers
from tests.browser.scene import Scene, set_scene
from tests.support.api_client import OPERATOR_KEY, development_settings
from tests.support.serving import serving
from tests.support.waiting import PATIENCE

# a live part is rendered less often the longer it takes, so that a busy machine has old ones
expect.set_options(timeout=PATIENCE * 1_000)

_PROGRAMS = ("chromium-headless-shell", "chromium")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The running dashboard and its data."""

    origin: str
    key: str
    database_url: str
    scene: Scene


@pytest.fixture(scope="module")
def artefacts(pytestconfig: pytest.Config) -> Path:
    """The folder of the screenshots, which is not under version control."""
    folder = pytestconfig.rootpath / "var" / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The path of Chromium."""
    named = os.environ.get("CHROMIUM")
    found = list(filter(None, map(shutil.which, (named,) if named else _PROGRAMS)))
    if not found:
        pytest.skip(
            "Chromium is missing: install Debian's `chromium-headless-shell`, or set CHROMIUM to "
            "the path of one"
        )
    return found[0]


@pytest.fixture(scope="module")
def chromium(chromium_path: str, site: Site) -> Iterator[Chromium]:
    """The browser. It starts after the site, because Playwright gives this thread an event loop."""
    # in a container, root lacks the rights that the sandbox needs
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    options.append("--renderer-process-limit=1")  # else it prepares processes for more pages
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=options)
        yield Chromium(browser, site.origin)
        browser.close()


@pytest.fixture(scope="module")
def customers() -> Iterator[str]:
    """The origin of a customer's site, which may embed the portal."""
    with serving(Customers) as origin:
        yield origin


@pytest.fixture(scope="module")
def site(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory, customers: str
) -> Iterator[Site]:
    """The API on a port of its own, with data to show. Temporal is unavailable (port 9 is closed):
    actions that need it show an error."""
    home = tmp_path_factory.mktemp("browser")
    url = f"sqlite+aiosqlite:///{home / 'hookfast.db'}"
    shutil.copyfile(sqlite_template, home / "hookfast.db")
    settings = development_settings(url, home).model_copy(
        update={"portal_frame_origins": (customers,)}
    )
    with pytest.MonkeyPatch.context() as patch, closing(socket.socket()) as listener:
        patch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
        listener.bind(("127.0.0.1", 0))
        scene = asyncio.run(_prepared(settings, url))
        server = uvicorn.Server(server_config(create_app(settings)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Site(
                origin=f"http://127.0.0.1:{listener.getsockname()[1]}",
                key=OPERATOR_KEY,
                database_url=url,
                scene=scene,
            )
        finally:
            server.should_exit = True
            thread.join()


async def _prepared(settings: Settings, url: str) -> Scene:
    async with Database(url) as database:
        return await set_scene(database, settings)
