"""The command line itself: which commands there are, how fast it answers, what `openapi` prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hookfast.cli import app
from hookfast.version import VERSION

_HEAVY = ("sqlalchemy", "fastapi", "temporalio", "pydantic", "uvicorn", "alembic")


def test_it_has_the_commands_the_readme_tells_of() -> None:
    assert sorted(command.name or "" for command in app.registered_commands) == [
        "api",
        "config",
        "demo",
        "migrate",
        "openapi",
        "up",
        "version",
        "worker",
    ]


def test_version_prints_the_version() -> None:
    assert CliRunner().invoke(app, ["version"]).stdout == f"{VERSION}\n"


def test_nothing_heavy_is_imported_before_a_command_needs_it() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", "import hookfast.cli, sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(_HEAVY).isdisjoint(listed.stdout.split())


@pytest.mark.parametrize("path", ["/v1/events", "/v1/deliveries/{delivery_id}", "/readyz"])
def test_openapi_prints_the_document_of_the_api(path: str) -> None:
    printed = CliRunner().invoke(app, ["openapi"])
    document = json.loads(printed.stdout)
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"] == VERSION
    assert path in document["paths"]


def test_the_committed_document_is_the_one_the_api_has() -> None:
    committed = Path(__file__).parents[3] / "docs/openapi.json"
    assert CliRunner().invoke(app, ["openapi"]).stdout == committed.read_text(), "run make openapi"
