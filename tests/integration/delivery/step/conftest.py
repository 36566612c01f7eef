"""Deliveries without workflows: a test says when Temporal would run a step, and with which signals.

The row decides what a step does, so most promises about deliveries are proved here. That a signal,
a timer and a cancellation reach the step is proved on Temporal, in `shared`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest

from hookfast.sender import AddressGuard, Sender
from hookfast.storage.database.engine import Database
from tests.integration.delivery.shared import conftest as shared
from tests.integration.delivery.steps import Steps
from tests.support.receiver import Receiver

sqlite_url, postgresql_url = shared.sqlite_url, shared.postgresql_url
database_url, database = shared.database_url, shared.database


@pytest.fixture
async def steps(database: Database, receiver: Receiver) -> AsyncIterator[Steps]:
    """The step activity on the module's database, with a receiver of the test."""
    async with Sender(guard=AddressGuard((ip_network("127.0.0.0/8"),))) as sender:
        steps = Steps(database, receiver, sender)
        yield steps
        await steps.close()
