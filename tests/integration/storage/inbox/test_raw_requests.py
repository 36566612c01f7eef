"""The received request that is loaded for a delivery with payload `raw`."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, update

from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.outgoing import Outgoing, OutgoingLoader
from hookfast.storage.tables import Event, InboxEntry
from tests.support.seed import KEYRING, delivery_row, seed_delivery, seed_endpoint
from tests.support.seed_inbox import seed_entry

pytestmark = pytest.mark.anyio


async def delivery_of(database: Database, inbox_id: str, *, payload: str) -> str:
    """Add a delivery of an event that was received with this inbox entry, and return its id."""
    endpoint = await seed_endpoint(database, "https://example.com/hook", payload=payload)
    delivery = await seed_delivery(database, endpoint)
    row = await delivery_row(database, delivery)
    async with database.write() as connection:
        table = Event.__table__
        where = table.c.id == row.event_id
        await connection.execute(update(table).where(where).values(inbox_id=inbox_id))
    return delivery


async def test_request_is_loaded_only_for_raw_payloads(database: Database) -> None:
    entry = await seed_entry(database, new_id("src"), new_id("tnt"), body=b'{ "n":1.50 }')
    for payload in ("raw", "full", "thin"):
        delivery = await delivery_of(database, entry, payload=payload)
        outgoing = await OutgoingLoader(database, KEYRING).load(delivery)
        assert (outgoing.raw is not None) == (payload == "raw")
        if outgoing.raw is not None:
            assert outgoing.raw.body == b'{ "n":1.50 }'
            assert outgoing.raw.headers == (("x-github-event", "push"),)


async def test_request_is_cached_and_a_deleted_one_is_no_error(
    database: Database,
) -> None:
    entry = await seed_entry(database, new_id("src"), new_id("tnt"))
    loader = OutgoingLoader(database, KEYRING)
    first = await delivery_of(database, entry, payload="raw")
    assert (await loader.load(first)).raw is not None
    async with database.write() as connection:
        await connection.execute(delete(InboxEntry.__table__))

    def raw_of(outgoing: Outgoing) -> bool:
        return outgoing.raw is not None

    assert raw_of(await loader.load(first))
    assert not raw_of(await OutgoingLoader(database, KEYRING).load(first))
