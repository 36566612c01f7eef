"""What every request handler needs: opened once per process, closed with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from temporalio.client import Client

from api.key_cache import KeyCache
from hookfast import temporal
from hookfast.clock import Clock, utc_now
from hookfast.keyring import Keyring, parse_keys
from hookfast.settings import Settings
from hookfast.storage.doorbell import Doorbell, doorbell_for
from hookfast.storage.engine import Database
from hookfast.storage.key_file import load_or_create

if TYPE_CHECKING:
    from api.steering import Steering
    from hookfast.sender import Sender


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts of a running API process."""

    settings: Settings
    database: Database
    keyring: Keyring
    sender: Sender
    steering: Steering
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
        sender, steering = _not_landed_yet(settings, client)
        yield Context(
            settings=settings,
            database=database,
            keyring=open_keyring(settings),
            sender=sender,
            steering=steering,
            temporal=client,
            doorbell=doorbell,
            keys=keys,
            clock=clock,
        )


def open_keyring(settings: Settings) -> Keyring:
    """The keys for secrets at rest: those set, or the embedded default's key file."""
    if settings.encryption_keys is not None:
        return Keyring(parse_keys(settings.encryption_keys.get_secret_value()))
    settings.home.mkdir(parents=True, exist_ok=True)
    return Keyring([load_or_create(settings.home / "encryption.key")])


async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


AppContext = Annotated[Context, Depends(_context)]
"""A route's parameter: the process's parts."""


def _not_landed_yet(settings, client):  # replaced when hookfast.sender and api.steering land
    return None, None
