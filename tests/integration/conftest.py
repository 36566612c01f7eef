"""The Temporal dev server of the tests that run workers. Tests that start workflows for no worker
have servers of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from tests.support.temporal_server import temporal_server

_PROMPT = (
    # timers are up to a second late by default
    *("--dynamic-config-value", 'history.timerProcessorMaxTimeShift="5ms"'),
    # a closed workflow is deleted after the next of these updates, by default 30 s apart
    *("--dynamic-config-value", 'history.transferProcessorUpdateAckInterval="1s"'),
)


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A Temporal dev server, shared by the tests of one process."""
    async with temporal_server(*_PROMPT) as environment:
        yield environment
