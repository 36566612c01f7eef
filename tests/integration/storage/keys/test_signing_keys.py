"""The service's RSA keys: which one signs, and which ones are listed in the directory."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from hookfast.storage.database.engine import Database
from hookfast.storage.keys import signing_keys
from hookfast.storage.keys.signing_keys import Rotation
from hookfast.storage.tables import SigningKey
from tests.support.seed import KEYRING

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)


async def _rotate(
    database: Database, now: datetime, *, announce: timedelta = HOUR, overlap: timedelta = 24 * HOUR
) -> Rotation:
    return await signing_keys.rotate(
        database, KEYRING, announce=announce, overlap=overlap, clock=lambda: now
    )


async def _signing(database: Database, now: datetime) -> str | None:
    async with database.read() as connection:
        found = await signing_keys.current_signer(connection, now=now)
    if found is None:
        return None
    assert found.open(KEYRING).kid == found.kid
    return found.kid


async def _listed(database: Database, now: datetime) -> list[str]:
    async with database.read() as connection:
        return [key["kid"] for key in await signing_keys.public_keys(connection, now=now)]


async def test_concurrent_processes_create_one_first_key(database: Database) -> None:
    await asyncio.gather(
        *(signing_keys.ensure_key(database, KEYRING, clock=lambda: NOW) for _ in range(4))
    )
    [kid] = await _listed(database, NOW)
    assert await _signing(database, NOW) == kid


async def test_a_new_key_is_listed_an_hour_before_it_signs_and_the_old_one_a_day_after(
    database: Database,
) -> None:
    old = (await _rotate(database, NOW, announce=timedelta())).kid
    rotation = await _rotate(database, NOW + HOUR)
    assert rotation.retired == (old,)
    begins = NOW + 2 * HOUR
    assert rotation.signs_from == begins
    assert await _signing(database, begins - TICK) == old
    assert await _signing(database, begins) == rotation.kid
    assert await _listed(database, NOW + HOUR) == [rotation.kid, old]
    assert await _listed(database, begins + 24 * HOUR - TICK) == [rotation.kid, old]
    assert await _listed(database, begins + 24 * HOUR) == [rotation.kid]


async def test_the_signing_key_is_always_listed(database: Database) -> None:
    await _rotate(database, NOW, announce=timedelta())
    now = NOW
    for announce, overlap, pause in ((1, 24, 0), (1, 0, 2), (0, 0, 0), (2, 1, 1), (0, 24, 30)):
        await _rotate(database, now, announce=announce * HOUR, overlap=overlap * HOUR)
        for later in (timedelta(), HOUR - TICK, HOUR, 2 * HOUR, 3 * HOUR, 60 * HOUR):
            kid = await _signing(database, now + later)
            assert kid in await _listed(database, now + later)
        now += pause * HOUR


async def test_rotation_without_overlap_removes_the_old_key_at_once(database: Database) -> None:
    old = (await _rotate(database, NOW, announce=timedelta())).kid
    rotation = await _rotate(database, NOW, announce=timedelta(), overlap=timedelta())
    assert rotation.retired == ()
    assert await _signing(database, NOW) == rotation.kid != old
    assert await _listed(database, NOW) == [rotation.kid]


async def test_later_rotation_does_not_extend_an_old_keys_listing(
    database: Database,
) -> None:
    first = (await _rotate(database, NOW, announce=timedelta())).kid
    await _rotate(database, NOW, announce=timedelta(), overlap=HOUR)
    await _rotate(database, NOW, announce=timedelta(), overlap=99 * HOUR)
    assert first not in await _listed(database, NOW + HOUR)


async def test_unlisted_keys_are_deleted_at_the_next_rotation(
    database: Database,
) -> None:
    await _rotate(database, NOW, announce=timedelta())
    await _rotate(database, NOW, announce=timedelta(), overlap=HOUR)
    await _rotate(database, NOW + 2 * HOUR, announce=timedelta(), overlap=HOUR)
    async with database.read() as connection:
        rows = await connection.scalar(select(func.count()).select_from(SigningKey.__table__))
    assert rows == 2
