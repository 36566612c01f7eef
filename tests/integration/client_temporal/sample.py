"""The sample of the guide, run against real services. `python -m
tests.integration.client_temporal.sample` saves the history of its workflow."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from unittest.mock import patch

from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment

from hookfast_client import AsyncHookfast
from tests.support.api_client import OPERATOR_KEY, development_settings
from tests.support.api_server import api_server
from tests.support.temporal_server import temporal_server

HISTORY = Path(__file__).with_name("order.json")
# at the end, so that the examples hide no other module
sys.path.append(str(Path(__file__).parents[3] / "docs" / "examples"))

import emit_from_workflow  # noqa: E402 - by this name the sandbox imports it too

OrderWorkflow = emit_from_workflow.OrderWorkflow
_FOLDER = re.compile(r'(File \\")/[^"\\]*/(?:site-packages|packages/client)/')
PAID, SHIPPED = "order.payment.received", "order.parcel.shipped"


async def run_sample(
    temporal: WorkflowEnvironment, database_url: str, home: Path, *event_types: str
) -> tuple[WorkflowHistory, list[str]]:
    """Run the sample with only these event types registered; return its workflow's history, and
    the types of the emitted events, oldest first."""
    async with (
        api_server(development_settings(database_url, home)) as api,
        AsyncHookfast(api.url, OPERATOR_KEY) as hookfast,
    ):
        for name in event_types:
            await hookfast.event_types.put(name)
        tenant = (await hookfast.tenants.create(name="Acme"))["id"]
        environment = {
            "TEMPORAL_ADDRESS": temporal.client.service_client.config.target_host,
            "HOOKFAST_URL": api.url,
            "HOOKFAST_API_KEY": OPERATOR_KEY,
        }
        with patch.dict(os.environ, environment):
            order = emit_from_workflow.Order(id="8Tx2", tenant_id=tenant, cents=129900)
            await emit_from_workflow.main(order)
        history = await temporal.client.get_workflow_handle("order/8Tx2").fetch_history()
        events = [event["type"] async for event in hookfast.events.list(tenant_id=tenant)]
        return history, events[::-1]


async def save_history(database_url: str, home: Path) -> None:
    """Save the history of a run whose second event is rejected."""
    async with temporal_server() as temporal:
        history, _ = await run_sample(temporal, database_url, home, PAID)
    HISTORY.write_text(_FOLDER.sub(r"\1", history.to_json()) + "\n")


if __name__ == "__main__":
    import tempfile

    from hookfast.storage.database.engine import Database
    from hookfast.storage.database.migrate import migrate

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite+aiosqlite:///{folder}/hookfast.db"
            async with Database(url) as database:
                await migrate(database)
            await save_history(url, Path(folder))

    asyncio.run(main())
