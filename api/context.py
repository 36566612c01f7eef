"""What every request handler needs: opened once per process, closed with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from temporalio.client import Client

from api.key_cache import KeyCache
from api.steering import Steering
from hookfast import temporal
from hookfast.clock import Clock, utc_now
from hookfast.keyring import Keyring
from hookfast.keys import keyring_of
from hookfast.sender import AddressGuard, Sender
from hookfast.settings import Settings
from hookfast.storage.doorbell import Doorbell, doorbell_for
from hookfast.storage.emit import Emitter
from hookfast.storage.engine import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts of a running API process."""

    settings: Settings
    database: Database
    keyring: Keyring
    sender: Sender
    steering: Steering
    emitter: Emitter
    temporal: Client
    doorbell: Doorbell
    keys: KeyCache
    clock: Clock


@asynccontextmanager
async def open_context(settings: Settings, *, clock: Clock = utc_now) -> AsyncIterator[Context]:
    """Open every part, and close them in reverse. Temporal may be away: its client connects at its
    first use."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(settings.resolved_database_url))
        keys = KeyCache(database, clock=clock)
        await stack.enter_async_context(keys.noting_use())
        doorbell = doorbell_for(database)
        stack.push_async_callback(doorbell.close)
        client = await temporal.connect(lazy=True)
        sender = Sender(
            guard=AddressGuard(settings.allowed_private_networks),
            excerpt_bytes=settings.response_excerpt_bytes,
            clock=clock,
        )
        stack.push_async_callback(sender.aclose)
        yield Context(
            settings=settings,
            database=database,
            keyring=keyring_of(settings),
            sender=sender,
            steering=Steering(client, database, fast_lane_timeout=settings.fast_lane_timeout),
            emitter=Emitter(database, doorbell, clock=clock),
            temporal=client,
            doorbell=doorbell,
            keys=keys,
            clock=clock,
        )


async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


AppContext = Annotated[Context, Depends(_context)]
"""A route's parameter: the process's parts."""
