"""The generated parts of the client are those of the present OpenAPI document and asyncio code."""

from __future__ import annotations

from pathlib import Path

import pytest

import generate
from hookfast.deliveries.actions import ACTIONS
from hookfast_client.aio.deliveries import AsyncDeliveries
from hookfast_client.sync.deliveries import Deliveries


def test_generated_files_are_current(tmp_path: Path) -> None:
    generate.write(tmp_path)
    for path in sorted(tmp_path.rglob("*.py")):
        name = path.relative_to(tmp_path)
        assert (generate.MODULE / name).read_text() == path.read_text(), (
            f"{name}: run `make client`"
        )
    written = {path.name for path in (tmp_path / "sync").iterdir() if path.suffix == ".py"}
    assert {path.name for path in (generate.MODULE / "sync").glob("*.py")} == written


@pytest.mark.parametrize("deliveries", [AsyncDeliveries, Deliveries])
def test_each_action_on_a_delivery_has_a_method(deliveries: type) -> None:
    assert not [name for name in ACTIONS if not callable(getattr(deliveries, name, None))]
