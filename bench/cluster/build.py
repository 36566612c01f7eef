"""Builds Temporal's server and SQL tool and Caddy from the Go module proxy, once for each version.

The binaries are kept under `var/`, so a second run needs neither Go nor the network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from bench.cluster.compose import ROOT, Compose

_TEMPORAL = "go.temporal.io/server"
_CADDY = "github.com/caddyserver/caddy/v2"
_OLDEST_GO = (1, 21)
"""The first Go that fetches a newer toolchain where a module asks for one (GOTOOLCHAIN=auto)."""
_LINE_SECONDS = 15.0
_LAST_LINES = 15


class CannotBuild(Exception):
    """A binary cannot be built; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Folders that hold `temporal-server` and `temporal-sql-tool`, Temporal's `schema`, and
    `caddy`."""

    temporal: Path
    caddy: Path

    @property
    def schema(self) -> Path:
        """Temporal's schema files; below it are `postgresql/v12/temporal/versioned`, …"""
        return self.temporal / "schema"


def build(compose: Compose, console: Console, *, folder: Path = ROOT / "var") -> Binaries:
    """Return the binaries, after building those that are missing. Raises CannotBuild."""
    temporal = folder / f"temporal-{compose.temporal_version}"
    caddy = folder / f"caddy-{compose.caddy_version}"
    folder.mkdir(parents=True, exist_ok=True)
    if not temporal.exists():
        module = f"{_TEMPORAL}@v{compose.temporal_version}"
        with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as name:
            building = Path(name) / "temporal"
            _install(f"{_TEMPORAL}/cmd/server", module, building / "temporal-server", console)
            _install(f"{_TEMPORAL}/cmd/tools/sql", module, building / "temporal-sql-tool", console)
            downloaded = json.loads(_go("mod", "download", "-json", module))
            # without the modes of Go's module cache, which nobody may write
            shutil.copytree(
                Path(downloaded["Dir"]) / "schema",
                building / "schema",
                copy_function=shutil.copyfile,
            )
            _let_owner_write(building)
            building.rename(temporal)
    if not caddy.exists():
        module = f"{_CADDY}@v{compose.caddy_version}"
        with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as name:
            building = Path(name) / "caddy"
            _install(f"{_CADDY}/cmd/caddy", module, building / "caddy", console)
            building.rename(caddy)
    return Binaries(temporal, caddy)


def go_version(text: str) -> tuple[int, int]:
    """Parse `go env GOVERSION`, as `go1.26.8`. Raises CannotBuild."""
    found = re.match(r"go(\d+)\.(\d+)", text)
    if found is None:
        raise CannotBuild(f"`go env GOVERSION` printed no version: {text!r}")
    return int(found[1]), int(found[2])


def _install(package: str, module: str, target: Path, console: Console) -> None:
    """Build a package of a module as the file `target`, and show what is compiled."""
    _check_go()
    version = module.partition("@")[2]
    with tempfile.TemporaryDirectory(dir=target.parent.parent) as folder:
        # without cgo it needs no C compiler, and is what the official images run
        environment = _environment() | {"GOBIN": folder, "CGO_ENABLED": "0"}
        command = ["go", "install", "-v", f"{package}@{version}"]
        _run_shown(command, environment, f"{target.name} {version}", console)
        target.parent.mkdir(exist_ok=True)
        (built,) = Path(folder).iterdir()
        built.rename(target)


def _run_shown(
    command: Sequence[str], environment: dict[str, str], title: str, console: Console
) -> None:
    console.print(f"Building {title}: some minutes, once.")
    begun = shown = time.monotonic()
    last: deque[str] = deque(maxlen=_LAST_LINES)
    compiled = 0
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        with Live(console=console, transient=True) as live:
            for line in process.stdout:
                last.append(line.rstrip())
                compiled += not line.startswith("go: ")
                status = f"  {compiled:,} packages  {line.strip()}"
                if console.is_terminal:
                    live.update(Text(status, no_wrap=True, overflow="ellipsis"))
                elif time.monotonic() - shown > _LINE_SECONDS:
                    shown = time.monotonic()
                    console.print(status, markup=False, highlight=False)
        if process.wait() != 0:
            raise CannotBuild(f"`{' '.join(command)}` failed:\n" + "\n".join(last))
    finally:
        process.kill()
        process.wait()
    console.print(f"Built {title} in {time.monotonic() - begun:.0f} s.")


def _check_go() -> None:
    if shutil.which("go") is None:
        raise CannotBuild(
            "The cluster's Temporal and Caddy are built from source, and there is no `go` on PATH. "
            "Install Go 1.21 or later from https://go.dev/dl/ (on Debian and Ubuntu: apt install "
            "golang-go, if it is new enough), and run this again."
        )
    version = go_version(_go("env", "GOVERSION"))
    if version < _OLDEST_GO:
        raise CannotBuild(
            f"Go {version[0]}.{version[1]} cannot fetch the newer toolchain that Temporal asks "
            "for. Install Go 1.21 or later from https://go.dev/dl/, and run this again."
        )


def _go(*arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments], env=_environment(), check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise CannotBuild(f"`go {' '.join(arguments)}` failed:\n{done.stderr or done.stdout}")
    return done.stdout


def _environment() -> dict[str, str]:
    return os.environ | {"GOTOOLCHAIN": "auto"}


def _let_owner_write(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
