"""The command line: its commands, its imports at start, and the document `openapi` prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from hookfast.cli import app
from hookfast.version import VERSION

_HEAVY = ("sqlalchemy", "fastapi", "temporalio", "pydantic", "uvicorn", "alembic", "httpx2", "rich")
_WITH_SETTINGS = ("endpoints", "sources", "subscriptions")
_NOUNS = [
    "audit",
    "dead-letters",
    "deliveries",
    "endpoints",
    "event-types",
    "events",
    "inbox",
    "jobs",
    "keys",
    "retention",
    "sources",
    "subscriptions",
    "tenants",
    "tests",
]


def test_command_line_has_the_documented_commands() -> None:
    assert sorted(command.name or "" for command in app.registered_commands) == [
        "alerts",
        "api",
        "config",
        "demo",
        "doctor",
        "emit",
        "figures",
        "find",
        "listen",
        "logs",
        "migrate",
        "openapi",
        "outbox-relay",
        "portal-link",
        "trigger",
        "up",
        "version",
        "worker",
    ]
    groups = sorted(group.name or "" for group in app.registered_groups)
    assert groups == sorted([*_NOUNS, "secrets"])


@pytest.mark.parametrize("noun", _NOUNS)
def test_every_command_on_a_running_hookfast_has_help_and_prints_json(noun: str) -> None:
    group = get_command(app).commands[noun]  # type: ignore[attr-defined]
    commands = group.list_commands(Context(group))
    assert commands
    for name in commands:
        printed = CliRunner().invoke(app, [noun, name, "--help"], env={"COLUMNS": "200"})
        assert printed.exit_code == 0
        assert "--json" in printed.stdout
        assert "HOOKFAST_API_KEY" in printed.stdout


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_version_prints_the_version(argument: str) -> None:
    assert CliRunner().invoke(app, [argument]).stdout == f"{VERSION}\n"


def test_nothing_heavy_is_imported_before_a_command_needs_it() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", "import hookfast.cli, sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert set(_HEAVY).isdisjoint(listed.stdout.split())


def test_declarations_of_settings_are_imported_only_by_commands_that_need_them() -> None:
    nouns = ", ".join(f"hookfast.cli.remote.{noun}" for noun in _WITH_SETTINGS)
    listed = subprocess.run(
        [sys.executable, "-c", f"import {nouns}, sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert {"pydantic", "fastapi", "sqlalchemy"}.isdisjoint(listed.stdout.split())


def test_openapi_prints_the_document_of_the_api_which_is_the_committed_one() -> None:
    printed = CliRunner().invoke(app, ["openapi"]).stdout
    document = json.loads(printed)
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"] == VERSION
    assert {"/v1/events", "/v1/deliveries/{delivery_id}", "/readyz"} <= document["paths"].keys()
    committed = Path(__file__).parents[3] / "docs/openapi.json"
    assert printed == committed.read_text(), "run make openapi"
