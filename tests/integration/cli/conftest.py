"""The API served on loopback, and the commands that talk to it."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest

from hookfast.settings.settings import Settings
from tests.e2e.service_process import NO_TLS, environment
from tests.support.api_client import OPERATOR_KEY, Json, development_settings
from tests.support.api_server import ApiServer, api_server
from tests.support.command_in_thread import run_in_thread
from tests.support.forked_command import run_forked
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

TYPE = "order.invoice.paid"
NEW = base64.b64encode(b"n" * 32).decode()
"""A new encryption key."""

_CHANGES_ITS_PROCESS = ("config", "doctor", "listen", "secrets")
"""Commands that configure logging or handle signals; others run in a thread of the tests."""


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output, which is one JSON text and nothing else."""
        return json.loads(self.out)

    @property
    def error_text(self) -> str:
        """Standard error as one line, without the frame that typer draws."""
        return " ".join(self.err.replace("│", " ").split())


class Run(Protocol):
    """Runs `hookfast …`; `stdin` is its standard input, `env` is added to its environment."""

    async def __call__(
        self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None
    ) -> CommandResult: ...


@pytest.fixture(autouse=True)
def temporal_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal is unreachable unless a test says otherwise. Port 9 (discard) is closed."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """SQLite by default, because the API's database makes no difference to most commands; see
    `ON_BOTH_DATABASES`."""
    url = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")
    assert isinstance(url, str)
    return url


ON_BOTH_DATABASES = pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
"""Mark for commands that work on the database themselves."""


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """Settings of a development machine: deliveries to loopback, over HTTP, unverified."""
    return development_settings(database_url, tmp_path)


@pytest.fixture
def service(settings: Settings) -> dict[str, str]:
    """The settings of a command that works on the database."""
    return {
        "HOOKFAST_HOME": str(settings.home),
        "HOOKFAST_DATABASE_URL": settings.resolved_database_url,
    }


@pytest.fixture
async def served(settings: Settings) -> AsyncIterator[ApiServer]:
    async with api_server(settings) as served:
        yield served


@pytest.fixture
def service_environment(served: ApiServer) -> dict[str, str]:
    """The environment of a command that calls the API as the operator."""
    return environment() | {"HOOKFAST_URL": served.url, "HOOKFAST_OPERATOR_KEY": OPERATOR_KEY}


@pytest.fixture
def hookfast(service_environment: dict[str, str], tmp_path: Path) -> Run:
    """Run a command: `await hookfast("deliveries", "list")` returns its result."""

    async def run(
        *arguments: str, stdin: str = "", env: dict[str, str] | None = None
    ) -> CommandResult:
        whole = service_environment | (env or {})
        forked = arguments[0] in _CHANGES_ITS_PROCESS or "PYTHONIOENCODING" in whole
        runner = run_forked if forked else run_in_thread
        ended = await runner(arguments, folder=tmp_path, env=whole, stdin=stdin.encode())
        return CommandResult(*ended)

    return run


@pytest.fixture
async def client(served: ApiServer) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with the operator's key; paths are relative to `/v1`."""
    async with httpx2.AsyncClient(
        base_url=f"{served.url}/v1",
        headers={"Authorization": f"Bearer {OPERATOR_KEY}"},
        trust_env=False,
        verify=NO_TLS,
        timeout=PATIENCE,  # a busy machine may take longer than the default of five seconds
    ) as client:
        yield client


@pytest.fixture
async def tenant(client: httpx2.AsyncClient) -> str:
    """A tenant, with a registered event type."""
    answer = await client.put(f"/event-types/{TYPE}", json={})
    assert answer.status_code in (200, 201), answer.text
    return str((await client.post("/tenants", json={"name": "Acme"})).json()["id"])


@pytest.fixture
async def endpoint(client: httpx2.AsyncClient, tenant: str) -> Json:
    """An endpoint of the tenant that subscribes to everything."""
    form = {
        "tenant_id": tenant,
        "url": "http://127.0.0.1:4/hook",
        "verification": "none",
        "events": ["**"],
    }
    answer = await client.post("/endpoints", json=form)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver of webhooks on loopback."""
    async with Receiver() as receiver:
        yield receiver
