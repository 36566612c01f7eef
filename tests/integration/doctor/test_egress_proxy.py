"""The doctor on egress proxies that work, are away, or reject us."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookfast.doctor.finding import Finding
from tests.e2e.service_process import free_ports
from tests.integration.doctor.conftest import installation, problems, run_check
from tests.support.tinyproxy import PASSWORD, TinyProxy

pytestmark = pytest.mark.anyio


async def _findings(home: Path, url: str | None) -> list[Finding]:
    return await run_check("egress_proxy", installation(home, None, egress_proxy=url))


async def test_a_proxy_that_accepts_our_requests_is_ok(tmp_path: Path) -> None:
    async with TinyProxy(tmp_path) as proxy:
        [finding] = await _findings(tmp_path, proxy.url)
    assert problems([finding]) == {}
    assert finding.saw == f"The egress proxy 127.0.0.1:{proxy.port} accepts our requests."


async def test_a_wrong_password_fails_and_is_not_shown(tmp_path: Path) -> None:
    async with TinyProxy(tmp_path) as proxy:
        findings = await _findings(tmp_path, proxy.url.replace(PASSWORD, "wrong-password"))
    assert "401" in problems(findings)["egress_proxy"][1]
    assert "HOOKFAST_EGRESS_PROXY" in problems(findings)["egress_proxy"][1]
    assert "wrong-password" not in str(findings)


async def test_a_proxy_that_is_away_fails(tmp_path: Path) -> None:
    findings = await _findings(tmp_path, f"http://127.0.0.1:{free_ports(1)[0]}")
    assert "cannot be reached" in problems(findings)["egress_proxy"][1]


async def test_nothing_is_said_without_a_proxy(tmp_path: Path) -> None:
    assert await _findings(tmp_path, None) == []
