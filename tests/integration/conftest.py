"""The Temporal dev server of the tests that run workers. Tests that start workflows for no worker
have servers of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from tests.support.temporal_server import temporal_server


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A Temporal dev server, shared by the tests of one process."""
    # A closed workflow is deleted after the next of these updates, which are 30 s apart by default.
    often = ("--dynamic-config-value", 'history.transferProcessorUpdateAckInterval="1s"')
    async with temporal_server(*often) as environment:
        yield environment
