"""The demo's second run uses what the first one created."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from hookfast.cli.demo.receiver import run_receiver
from hookfast.cli.demo.setup import SavedState, set_up
from hookfast_client import AsyncHookfast
from tests.support.api_client import OPERATOR_KEY
from tests.support.api_server import ApiServer

pytestmark = pytest.mark.anyio


async def _set_up(served: ApiServer, home: Path) -> tuple[SavedState, int]:
    """Set the demo up as a run does. Return its state, and the new port of its receiver."""
    state = SavedState.load(home)
    async with (
        run_receiver(0, secrets=state.secrets, outage_every=300) as receiver,
        AsyncHookfast(served.url, OPERATOR_KEY) as hookfast,
    ):
        await set_up(hookfast, state, receiver)
    return state, receiver.port


async def test_second_run_reuses_and_enables_the_endpoints_of_the_first(
    served: ApiServer, client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    first, _ = await _set_up(served, tmp_path)
    saved = (tmp_path / "demo.json").read_text()
    disabled = first.endpoints["old-shop"]
    assert (await client.post(f"/endpoints/{disabled}/disable")).status_code == 200

    _, port = await _set_up(served, tmp_path)

    assert (tmp_path / "demo.json").read_text() == saved
    listed = {row["id"]: row for row in (await client.get("/endpoints")).json()["data"]}
    assert listed.keys() == set(first.endpoints.values())
    assert {row["state"] for row in listed.values()} == {"enabled"}
    assert {row["url"].rpartition("/")[0] for row in listed.values()} == {
        f"http://127.0.0.1:{port}"
    }
