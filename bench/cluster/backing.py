"""PostgreSQL and Temporal as `docker-compose.yml` runs them, without containers.

Compose's own scripts create the secrets, the databases, Temporal's schema and the namespace. The
Temporal servers read compose's environment through the template that is built into them, as its
image does; only addresses differ. Several servers are one cluster: each has all four services, and
they find each other through the table of members in PostgreSQL.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGINT

from rich.console import Console

from bench.chaos.database import Postgresql
from bench.chaos.part import Part
from bench.cluster.build import Binaries, build
from bench.cluster.compose import FILES, ROOT, Compose, read_compose
from bench.cluster.ports import free_ports
from bench.cluster.postgresql import DATA, HOST, new_postgresql
from hookfast.cli.up import find_binary

NAMESPACE = "hookfast"
_STOP_SECONDS = 20.0
_HEALTHY_SECONDS = 60.0
_SERVICES = ("FRONTEND", "HISTORY", "MATCHING", "WORKER")
_OTHER_PROGRAMS = ("HOOKFAST_", "TEMPORAL_", "OTEL_", "PG")

Prefix = Callable[[str], Sequence[str]]
"""Returns the words before a part's command, by the part's name: `["taskset", "-c", "0"]`. They
have to become the command (exec)."""


class ScriptFailed(Exception):
    """One of compose's scripts failed; the message has the end of its output."""


def no_prefix(_: str) -> Sequence[str]:
    """Run the command itself."""
    return ()


@dataclass(slots=True)
class Backing:
    """Running PostgreSQL and Temporal servers. `temporal_address` stays the same while servers of
    the cluster come and go; `frontends` has each server's own address."""

    home: Path
    compose: Compose
    binaries: Binaries
    postgresql: Postgresql
    postgresql_port: int
    temporal_address: str
    ports: Iterator[int]
    prefix: Prefix
    temporals: list[Part] = field(default_factory=list)
    frontends: list[str] = field(default_factory=list)
    balancer: Part | None = None

    @property
    def secrets(self) -> Path:
        """The folder that `make-secrets.sh` made."""
        return self.home / "secrets"

    @property
    def parts(self) -> list[Part]:
        """The processes that run now."""
        balancer = [] if self.balancer is None else [self.balancer]
        return [self.postgresql.part, *self.temporals, *balancer]

    def database_url(self, name: str = "hookfast") -> str:
        """Return a URL of PostgreSQL's superuser for psycopg and asyncpg: of `hookfast`, `temporal`
        or `temporal_visibility`. It goes through the socket and needs no password."""
        return f"postgresql://postgres@/{name}?{self.postgresql.socket}"

    def hookfast_url(self) -> str:
        """Return the URL with which Hookfast connects, with its password, for SQLAlchemy."""
        url = (self.secrets / "database_url").read_text().strip()
        return url.replace("postgresql://", "postgresql+asyncpg://")

    def part(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Part:
        """Return a part, not started, with its prefix and its log in `home`."""
        whole = [*self.prefix(name), *command]
        return Part(name, whole, environment=environment, log=self.home / f"{name}.log")

    async def wait_for_temporal(self, frontend: str) -> None:
        """Wait until this server of the cluster answers. Raises TimeoutError."""
        async with asyncio.timeout(_HEALTHY_SECONDS):
            while not await _is_healthy(frontend):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.2)


@asynccontextmanager
async def running_backing(
    home: Path,
    *,
    temporals: int = 1,
    prefix: Prefix = no_prefix,
    shards: int | None = None,
    console: Console | None = None,
) -> AsyncIterator[Backing]:
    """Run PostgreSQL and this many Temporal servers while the block lasts, with data and logs in
    `home` (a short path, because PostgreSQL's socket is in it). `shards` replaces compose's number
    of history shards. Raises CannotBuild where a binary is missing and cannot be built."""
    compose = read_compose()
    binaries = await asyncio.to_thread(build, compose, console or Console(stderr=True))
    ports = free_ports()
    port = next(ports)
    await _run_script(["sh", str(FILES / "make-secrets.sh"), str(home / "secrets")], {})
    _point_hookfast_at(home / "secrets", port)
    postgresql = await asyncio.to_thread(
        new_postgresql, home, compose, port=port, prefix=prefix("postgresql")
    )
    addresses = [next(ports) for _ in range(temporals)]
    balanced = next(ports) if temporals > 1 else addresses[0]
    backing = Backing(
        home=home,
        compose=compose,
        binaries=binaries,
        postgresql=postgresql,
        postgresql_port=port,
        temporal_address=f"{HOST}:{balanced}",
        ports=ports,
        prefix=prefix,
        frontends=[f"{HOST}:{address}" for address in addresses],
    )
    async with AsyncExitStack() as stack:
        # not SIGKILL, which would leave its shared memory
        stack.push_async_callback(postgresql.part.kill, SIGINT, patience=_STOP_SECONDS)
        await postgresql.start()
        await _make_databases(backing)
        await _make_schema(backing)
        for number, address in enumerate(addresses, 1):
            environment = _temporal_environment(backing, address, shards=shards)
            command = [str(binaries.temporal / "temporal-server"), "start"]
            temporal = backing.part(f"temporal-{number}", command, environment)
            backing.temporals.append(temporal)
            stack.push_async_callback(temporal.kill)
            await temporal.start()
            if number == 1:
                # Alone: it creates the record of the cluster, and servers that start with it may
                # fail over that.
                await backing.wait_for_temporal(backing.frontends[0])
        if temporals > 1:
            command = [sys.executable, "-m", "bench.cluster.balancer", str(balanced)]
            backing.balancer = backing.part(
                "balancer", [*command, *backing.frontends], python_environment(ROOT)
            )
            stack.push_async_callback(backing.balancer.kill)
            await backing.balancer.start()
        for frontend in backing.frontends[1:]:
            await backing.wait_for_temporal(frontend)
        await _make_namespace(backing)
        yield backing


def inherited() -> dict[str, str]:
    """Return our environment without what is meant for another Hookfast, Temporal or PostgreSQL."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OTHER_PROGRAMS) and name not in ("SITE", "SECRETS", "SCHEMA")
    }


def python_environment(code: Path) -> dict[str, str]:
    """Return the environment of a Python process that imports the code in this folder."""
    path = os.pathsep.join((str(code), str(code / "packages" / "client")))
    # safe: `python -m` would import from the current directory first
    return inherited() | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def _point_hookfast_at(secrets: Path, port: int) -> None:
    file = secrets / "database_url"
    url = file.read_text().replace("@postgresql:5432/", f"@{HOST}:{port}/")
    file.unlink()  # it is read-only
    file.write_text(url)


async def _make_databases(backing: Backing) -> None:
    await _run_script(
        ["sh", str(FILES / "postgresql" / "make-databases.sh")],
        {
            "PATH": _path(backing.postgresql.programs),
            "PGHOST": str(backing.home / DATA),
            "PGPORT": str(backing.postgresql_port),
            "SECRETS": str(backing.secrets),
        },
    )


async def _make_schema(backing: Backing) -> None:
    given = backing.compose.environment("temporal-schema", secrets=backing.secrets)
    await _run_script(
        ["sh", str(FILES / "temporal" / "schema.sh")],
        given
        | {
            "PATH": _path(backing.binaries.temporal),
            "SQL_HOST": HOST,
            "SQL_PORT": str(backing.postgresql_port),
            "SECRETS": str(backing.secrets),
            "SCHEMA": str(backing.binaries.schema),
        },
    )


async def _make_namespace(backing: Backing) -> None:
    given = backing.compose.environment("temporal-namespace", secrets=backing.secrets)
    await _run_script(
        ["sh", str(FILES / "temporal" / "namespace.sh")],
        given
        | {
            "PATH": _path(Path(find_binary()).parent),
            "TEMPORAL_ADDRESS": backing.temporal_address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
        },
    )


def _temporal_environment(
    backing: Backing, frontend_port: int, *, shards: int | None
) -> dict[str, str]:
    given = backing.compose.environment("temporal", secrets=backing.secrets)
    ports = {
        name: str(next(backing.ports))
        for service in _SERVICES
        for name in (f"{service}_GRPC_PORT", f"{service}_MEMBERSHIP_PORT")
    }
    own = {
        **ports,
        "FRONTEND_GRPC_PORT": str(frontend_port),
        "FRONTEND_HTTP_PORT": str(next(backing.ports)),
        "POSTGRES_SEEDS": HOST,
        "POSTGRES_PWD": (backing.secrets / "temporal_db_password").read_text().strip(),
        "DB_PORT": str(backing.postgresql_port),
        "BIND_ON_IP": HOST,
        "PROMETHEUS_ENDPOINT": f"{HOST}:{next(backing.ports)}",
        "DYNAMIC_CONFIG_FILE_PATH": str(FILES / "temporal" / "dynamic-config.yaml"),
        "LOG_LEVEL": "warn",
    }
    fewer = {} if shards is None else {"NUM_HISTORY_SHARDS": str(shards)}
    return inherited() | given | own | fewer


async def _is_healthy(frontend: str) -> bool:
    process = await asyncio.create_subprocess_exec(
        *(find_binary(), "operator", "cluster", "health", "--address", frontend),
        env=inherited() | {"TEMPORAL_CONFIG_FILE": os.devnull},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await process.wait() == 0


async def _run_script(command: Sequence[str], environment: Mapping[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=inherited() | dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        end = "\n".join(output.decode(errors="replace").splitlines()[-15:])
        raise ScriptFailed(f"{command[1]} failed:\n{end}")


def _path(folder: Path) -> str:
    return f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
