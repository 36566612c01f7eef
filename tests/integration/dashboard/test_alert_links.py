"""Alerts link to pages of the dashboard that exist."""

from __future__ import annotations

import re

import pytest

from hookfast.telemetry.alert_rules import alert_rules
from tests.integration.dashboard.visitor import Visitor

pytestmark = pytest.mark.anyio


async def test_pages_that_alerts_link_to_exist(operator: Visitor) -> None:
    rules = alert_rules(runbook_url=None, grafana_url=None, public_url="")
    paths = set(re.findall(r'hookfast_url: "(/[^"]+)"', rules))
    assert len(paths) > 5
    for path in sorted(paths):
        assert (await operator.get(path)).status_code == 200, path
