"""Installations for the doctor, and running one of its checks."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import WorkflowEnvironment

from hookfast.clock import Clock, utc_now
from hookfast.doctor.examination import CHECKS, examine
from hookfast.doctor.finding import Finding
from hookfast.settings.settings import Settings
from hookfast.storage.figures.workers import Heartbeat
from tests.e2e.service_process import free_ports
from tests.support.seed import KEY
from tests.support.temporal_server import temporal_server

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
OPERATOR_KEY = "hf_vX3q9LrT0mZb7KfYw2JcN8sHdU5gPeA1"


@pytest.fixture(autouse=True)
def _no_other_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An unreachable Temporal and no `.env`, unless the test says otherwise."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{free_ports(1)[0]}")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A real dev server for the doctor's tests."""
    async with temporal_server() as environment:
        yield environment


@pytest.fixture
def at_temporal(temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `TEMPORAL_ADDRESS` name that server."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.client.service_client.config.target_host)


def installation(home: Path, database_url: str | None, **settings: Any) -> Settings:
    """Return the settings of a complete installation, changed by `settings`."""
    given: dict[str, Any] = {
        "home": home,
        "database_url": database_url,
        "encryption_keys": base64.b64encode(KEY).decode(),
        "operator_key": OPERATOR_KEY,
    }
    return Settings(**given | settings)


async def run_check(name: str, settings: Settings, *, clock: Clock = utc_now) -> list[Finding]:
    """Return the findings of one check."""
    checks = tuple(check for check in CHECKS if check.name == name)
    assert checks
    return await examine(settings, clock=clock, checks=checks)


def problems(findings: list[Finding]) -> dict[str, tuple[str, str]]:
    """Return the findings that are not ok, by check: the status, and all its text. Each check has
    at most one."""
    wrong = [finding for finding in findings if finding.status != "ok"]
    assert all(finding.todo for finding in wrong), "it does not say what to do"
    assert len({finding.check for finding in wrong}) == len(wrong)
    return {one.check: (one.status, f"{one.saw} {one.todo}") for one in wrong}


def beat(name: str, *, started: float = 60, seen: float = 0, version: str = "1") -> Heartbeat:
    """A worker that started, and was last seen, so many minutes before NOW."""
    return Heartbeat(
        worker_id=f"{name}-7-abcdef",
        version=version,
        started_at=NOW - timedelta(minutes=started),
        seen_at=NOW - timedelta(minutes=seen),
    )
