"""Large deliveries to receivers that answer slowly."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from joserfc.jwk import OKPKey
from sqlalchemy import func, insert, select, update

from hookfast.ids import new_id
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import Delivery, Event, Subscription, SubscriptionMapping
from tests.support.seed import delivery_row, seed_delivery, seed_endpoint
from tests.support.seed_inbox import seed_entry

MIB = 1024 * 1024
SIZE = 5_000_000
HOLD_SECONDS = 20.0
KEY = OKPKey.generate_key("X25519").as_dict(private=False)
KINDS: dict[str, dict[str, Any]] = {
    "raw": {"payload": "raw"},
    "full": {},
    "mapped": {"payload": "mapped"},
    "encrypted": {
        "encryption": {
            "jwk": {name: KEY[name] for name in ("kty", "crv", "x")},
            "alg": "ECDH-ES+A256KW",
        }
    },
}


def memory(pid: int, name: str = "VmRSS") -> float:
    """Return a value of the process's status, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


class SlowReceiver:
    """Reads each body without keeping it, and answers after `seconds`."""

    def __init__(self) -> None:
        self.seconds = HOLD_SECONDS
        self.in_flight = 0
        self.received: Counter[str] = Counter()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:-1])
            left = int(headers["content-length"])
            while left:
                left -= len(await reader.read(min(left, MIB)))
            self.received[headers["x-hook-id"]] += 1
            self.in_flight += 1
            await asyncio.sleep(self.seconds)
            self.in_flight -= 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def deliver_large(database: Database, endpoint: str, number: int) -> str:
    """Store a delivery with a body of its own, and return its id."""
    items = [{"id": n, "name": f"name {n}", "paid": True} for n in range(1_000)]
    data = {"number": number, "items": items, "text": "x" * (SIZE - 50_000)}
    delivery = await seed_delivery(database, endpoint, data=data)
    row = await delivery_row(database, delivery)
    if row.payload == "raw":
        body = json.dumps(data).encode()
        entry = await seed_entry(database, new_id("src"), row.tenant_id, body=body)
        events = Event.__table__
        async with database.write() as connection:
            await connection.execute(
                update(events).where(events.c.id == row.event_id).values(inbox_id=entry)
            )
    return delivery


async def slow_endpoint(database: Database, url: str, kind: str) -> str:
    endpoint = await seed_endpoint(database, url, timeout=30, **KINDS[kind])
    if kind == "mapped":
        subscriptions = Subscription.__table__.c
        async with database.write() as connection:
            found = await connection.execute(
                select(subscriptions.id).where(subscriptions.endpoint_id == endpoint)
            )
            row = {"subscription_id": found.scalar_one(), "mapping": "{text: data.text}"}
            await connection.execute(insert(SubscriptionMapping.__table__), row)
    return endpoint


async def delivered(database: Database, endpoints: list[str]) -> int:
    columns = Delivery.__table__.c
    statement = select(func.count()).where(
        columns.status == "delivered", columns.endpoint_id.in_(endpoints)
    )
    async with database.read() as connection:
        return (await connection.execute(statement)).scalar_one()
