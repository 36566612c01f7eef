"""The plan of `up`, as one process passes it to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookfast.cli.up import make_plan
from hookfast.settings.settings import Settings
from hookfast.supervisor.plan import Plan

SECRETS = {
    "operator_key": "hf_" + "s" * 40,
    "database_url": "postgresql://someone:sssssss@db.example.com/hookfast",
    "metrics_token": "ssssssssssssssss",
}


@pytest.mark.parametrize("address", ["", "temporal.example.com:7233"])
def test_plan_survives_a_command_line_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    settings = Settings(home=tmp_path / "[x] 'y'", api_processes=2, **SECRETS)

    plan = make_plan(settings, workers=3)

    assert Plan.from_json(plan.to_json()) == plan
    assert (plan.api_processes, plan.workers, plan.most_workers) == (2, 3, 3)
    assert (plan.temporal is None) == bool(address)
    assert "sssssss" not in plan.to_json()


@pytest.mark.parametrize(("available", "most"), [(0.5, 1), (1, 1), (2.5, 2), (16, 3)])
def test_workers_that_nobody_has_counted_are_as_many_as_there_are_cores(
    monkeypatch: pytest.MonkeyPatch, available: float, most: int
) -> None:
    monkeypatch.setattr("hookfast.cli.up.cores", lambda: available)
    plan = make_plan(Settings())
    assert (plan.workers, plan.most_workers) == (1, most)


def test_plan_has_the_search_attributes_with_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)  # then `up` runs a Temporal of its own
    plan = make_plan(Settings())
    assert plan.temporal is not None
    assert "HookTenant=Keyword" in plan.temporal.search_attributes
