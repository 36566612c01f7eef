"""Fixtures of the tests that kill workers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from tests.support.temporal_server import temporal_server

# A server gives tasks to the open polls of a frozen worker, until they end: by default after 60 s.
_SHORT_POLLS = ("--dynamic-config-value", 'matching.longPollExpirationInterval="5s"')


@pytest.fixture
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A Temporal server for each test, without the leftovers of workers that others killed."""
    async with temporal_server(*_SHORT_POLLS) as environment:
        yield environment


@pytest.fixture
def temporal_address(temporal: WorkflowEnvironment) -> str:
    """The address of the test's Temporal server, as `TEMPORAL_ADDRESS` has it."""
    return temporal.client.service_client.config.target_host
