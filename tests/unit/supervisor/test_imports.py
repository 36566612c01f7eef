"""The imports of the long-running process of `up`, which keep it small."""

from __future__ import annotations

import subprocess
import sys

_HEAVY = {
    "alembic",
    "asyncpg",
    "cryptography",
    "fastapi",
    "google",
    "httpx2",
    "pydantic",
    "sqlalchemy",
    "temporalio",
    "typer",
    "uvicorn",
    "hookfast.cli",
    "hookfast.settings.settings",
    "hookfast.storage",
    "hookfast.temporal",
}


def test_the_supervisor_imports_nothing_heavy() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", "import hookfast.supervisor.__main__, sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert _HEAVY.isdisjoint(listed.stdout.split())
