"""Rekeying: sealing all secrets with another key, while others change them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from hookfast.clock import utc_now
from hookfast.endpoints.credentials import (
    Basic,
    Bearer,
    Credential,
    open_credentials,
    put_credential,
    seal_credential,
)
from hookfast.endpoints.secrets import open_headers, open_secrets, rotate, seal_headers
from hookfast.errors import Misconfigured
from hookfast.signing.keyring import Keyring
from hookfast.signing.signature import secret_key
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoints
from hookfast.storage.keys import signing_keys
from hookfast.storage.keys.rekey import rekey, survey
from hookfast.storage.tables import Endpoint
from tests.support.seed import KEY, KEYRING, SECRET, seed_endpoint

pytestmark = pytest.mark.anyio

NEW = b"n" * 32
BOTH = Keyring([NEW, KEY])
NEWEST = Keyring([NEW])
URL = "http://127.0.0.1:4/"


async def _seed(database: Database, *, headers: dict[str, str]) -> str:
    endpoint_id = await seed_endpoint(database, URL)
    async with database.write() as connection:
        row = await endpoints.get(connection, endpoint_id)
        assert row is not None
        sealed = seal_headers(headers, KEYRING, endpoint_id=endpoint_id)
        await endpoints.change(
            connection, endpoint_id, seen=row.updated_at, values={"headers": sealed}
        )
    return endpoint_id


async def _row(database: Database, endpoint_id: str) -> Endpoint:
    async with database.read() as connection:
        row = await endpoints.get(connection, endpoint_id)
    assert row is not None
    return row


def _opened(row: Endpoint, keyring: Keyring) -> tuple[list[bytes], dict[str, str]]:
    secrets = open_secrets(row.secrets, keyring, endpoint_id=row.id, now=utc_now())
    return list(secrets.hmac), open_headers(row.headers, keyring, endpoint_id=row.id)


async def test_old_key_is_not_needed_after_rekeying(database: Database) -> None:
    ids = [await _seed(database, headers={"Authorization": f"Bearer {n}"}) for n in range(3)]
    await signing_keys.ensure_key(database, KEYRING, clock=utc_now)
    before = await survey(database, BOTH)
    assert (before.values, before.older) == (7, 7)
    stamps = [(await _row(database, one)).updated_at for one in ids]
    assert await rekey(database, BOTH) == 7
    for n, endpoint_id in enumerate(ids):
        row = await _row(database, endpoint_id)
        assert _opened(row, NEWEST) == ([secret_key(SECRET)], {"Authorization": f"Bearer {n}"})
    # `updated_at` is the same, so a concurrent change of the endpoint does not conflict
    assert [(await _row(database, one)).updated_at for one in ids] == stamps
    async with database.read() as connection:
        signer = await signing_keys.current_signer(connection, now=utc_now())
    assert signer is not None
    assert signer.open(NEWEST).kid == signer.kid
    after = await survey(database, NEWEST)
    assert (after.values, after.older, after.unopened) == (7, 0, [])


async def test_credentials_are_rekeyed(database: Database) -> None:
    endpoint_id = await seed_endpoint(database, URL)
    credentials = (Basic("shop", "old"), Bearer("new"))
    async with database.write() as connection:
        row = await endpoints.get(connection, endpoint_id)
        assert row is not None
        stored: list[Credential] = []
        for each in credentials:
            sealed = seal_credential(each, KEYRING, endpoint_id=endpoint_id, now=utc_now())
            stored = put_credential(stored, sealed, overlap=timedelta(days=1), now=utc_now())
        await endpoints.change(
            connection, endpoint_id, seen=row.updated_at, values={"credentials": stored}
        )
    assert (await survey(database, BOTH)).older == 3
    with pytest.raises(Misconfigured, match="credential bearer"):
        await rekey(database, Keyring([NEW, b"s" * 32]))
    assert await rekey(database, BOTH) == 3
    row = await _row(database, endpoint_id)
    opened = open_credentials(row.credentials, NEWEST, endpoint_id=endpoint_id, now=utc_now())
    assert opened.authentication == credentials[::-1]


async def test_a_second_run_finds_nothing_to_do(database: Database) -> None:
    endpoint_id = await _seed(database, headers={"X-A": "a"})
    assert await rekey(database, BOTH) == 2
    row = await _row(database, endpoint_id)
    assert await rekey(database, BOTH) == 0
    assert await _row(database, endpoint_id) == row


@pytest.mark.parametrize("damaged", [[5], [{}], {"a": 1}], ids=str)
async def test_a_damaged_row_is_named_and_the_others_are_counted(
    database: Database, damaged: Any
) -> None:
    await seed_endpoint(database, URL)
    endpoint_id = await seed_endpoint(database, URL, secrets=damaged)
    found = await survey(database, BOTH)
    assert (found.values, found.unopened) == (2, [f"{endpoint_id} (damaged)"])


async def test_value_that_no_key_opens_fails_before_any_change(
    database: Database,
) -> None:
    ids = [await _seed(database, headers={"X-A": "a"}) for _ in range(3)]
    before = [await _row(database, one) for one in ids]
    stranger = Keyring([NEW, b"s" * 32])
    with pytest.raises(Misconfigured, match="and 1 more; nothing was changed") as caught:
        await rekey(database, stranger)
    assert ids[0] in caught.value.message
    assert [await _row(database, one) for one in ids] == before


async def test_the_progress_ends_at_its_total(database: Database) -> None:
    for _ in range(60):
        await _seed(database, headers={})
    seen: list[tuple[int, int]] = []
    assert await rekey(database, BOTH, progress=lambda *at: seen.append(at)) == 60
    assert seen == [(50, 60), (60, 60)]


async def test_interrupted_rekey_continues(database: Database) -> None:
    for _ in range(60):
        await _seed(database, headers={})

    def stop(seen: int, _: int) -> None:
        if seen >= 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await rekey(database, BOTH, progress=stop)
    assert (await survey(database, BOTH)).older == 10
    assert await rekey(database, BOTH) == 10


async def test_concurrent_rotations_are_not_lost(database: Database) -> None:
    ids = [await _seed(database, headers={"X-A": "a"}) for _ in range(20)]
    expected = {endpoint_id: {secret_key(SECRET)} for endpoint_id in ids}
    rotating = True

    async def rotate_secret(endpoint_id: str, keyring: Keyring) -> None:
        """Rotate as the API does, in a process that may not use the new key first yet."""
        async with database.write() as connection:
            row = await endpoints.get(connection, endpoint_id, lock=True)
            assert row is not None
            now = utc_now()
            rotation = rotate(
                row.secrets, keyring, endpoint_id=row.id, overlap=timedelta(hours=1), now=now
            )
            values: dict[str, Any] = {"secrets": rotation.secrets, "updated_at": now}
            assert await endpoints.change(connection, row.id, seen=row.updated_at, values=values)
        expected[endpoint_id].add(secret_key(rotation.secret))

    async def traffic() -> None:
        for place, endpoint_id in enumerate(ids * 3):
            await rotate_secret(endpoint_id, BOTH if place % 2 else Keyring([KEY, NEW]))
            if not rotating:
                return

    under_way = asyncio.create_task(traffic())
    done = 0
    while not under_way.done():
        done += await rekey(database, BOTH)
        await asyncio.sleep(0)
    await under_way
    rotating = False
    done += await rekey(database, BOTH)
    assert done >= 40
    for endpoint_id in ids:
        keys, headers = _opened(await _row(database, endpoint_id), NEWEST)
        assert set(keys) == expected[endpoint_id]
        assert headers == {"X-A": "a"}


async def test_deleted_endpoint_keeps_no_sealed_values(database: Database) -> None:
    endpoint_id = await _seed(database, headers={"Authorization": "Bearer a"})
    async with database.write() as connection:
        await endpoints.mark_deleted(connection, endpoint_id, at=utc_now())
    async with database.read() as connection:
        table = Endpoint.__table__
        row = (await connection.execute(select(table).where(table.c.id == endpoint_id))).one()
    assert (row.secrets, row.headers) == ([], {})
    assert (await survey(database, KEYRING)).values == 0
