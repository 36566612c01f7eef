"""The preparation that `up` runs in a process of its own before it starts the API and workers: it
migrates the database, creates an operator key, and waits for the embedded Temporal.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.service import RPCError

from hookfast.cli import errors_as_sentences
from hookfast.cli.console import print_operator_key, read_settings
from hookfast.cli.prepare import prepare
from hookfast.logs import configure_logging
from hookfast.process import run_and_end, run_async
from hookfast.settings.settings import Settings
from hookfast.supervisor.embedded_temporal import log_end, log_path
from hookfast.supervisor.processes import CannotStart
from hookfast.temporal.connection import CLOSED_WORKFLOWS_KEPT, connect_embedded

_START_SECONDS = 60.0  # usually half a second; the first start from a cold disk takes longer


def main(*, await_temporal: bool) -> None:
    """Prepare the database and Temporal, and print a new operator key."""
    settings = read_settings()
    configure_logging(settings, process="up")
    run_async(_run(settings, await_temporal=await_temporal))


async def _run(settings: Settings, *, await_temporal: bool) -> None:
    key = await prepare(settings)
    if key is not None:
        print_operator_key(key)
    if await_temporal:
        address, namespace = os.environ["TEMPORAL_ADDRESS"], os.environ["TEMPORAL_NAMESPACE"]
        await wait_until_serving(address, namespace, home=settings.home)


async def wait_until_serving(address: str, namespace: str, *, home: Path) -> None:
    """Wait until the embedded Temporal at `address` serves the namespace, and set how long it keeps
    closed workflows. Raises CannotStart after 60 s, with the end of its log in `home`."""
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not await _serves(address, namespace):  # noqa: ASYNC110 - another process starts
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise CannotStart(
            f"Temporal does not answer on {address}. The end of {log_path(home)}:\n{log_end(home)}"
        ) from None


async def _serves(address: str, namespace: str) -> bool:
    retention = Duration()
    retention.FromTimedelta(CLOSED_WORKFLOWS_KEPT)
    try:
        client = await connect_embedded(address, namespace=namespace)
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=namespace), timeout=timedelta(seconds=5)
        )
        await client.workflow_service.update_namespace(
            UpdateNamespaceRequest(
                namespace=namespace,
                config=NamespaceConfig(workflow_execution_retention_ttl=retention),
            ),
            timeout=timedelta(seconds=5),
        )
    except (RuntimeError, RPCError):  # a failed connect raises RuntimeError
        return False
    return True


def _command() -> None:
    with errors_as_sentences():
        main(await_temporal="--await-temporal" in sys.argv)


if __name__ == "__main__":
    run_and_end(_command)
