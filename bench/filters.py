"""The cost of content filters when an event is emitted: `make filter-bench`.

An event becomes ten deliveries in each of two ways: of 1,000 subscriptions, ten are to its type; or
all 1,000 are to its type, and the filters of ten let it pass. For comparison, it also becomes 1,000
deliveries. The API runs alone, without worker and Temporal. CPU is that of the API's process and,
separately, of PostgreSQL's, per emitted event; the rates depend on other load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path

import httpx2
import uvloop
from rich.console import Console
from rich.table import Table

from bench.emit import Side, create, running_api

SUBSCRIPTIONS, MATCHING = 1_000, 10
BY_TYPE, BY_FILTER, ALL = "order.invoice.typed", "order.invoice.filtered", "order.invoice.shared"
WAYS = {
    BY_TYPE: f"{MATCHING} of {SUBSCRIPTIONS:,} by type",
    BY_FILTER: f"{MATCHING} of {SUBSCRIPTIONS:,} by filter",
    ALL: f"all of {SUBSCRIPTIONS:,}",
}
_CREATED_AT_ONCE = 16
console = Console()


async def _register(client: httpx2.AsyncClient) -> None:
    """Create an endpoint with the subscriptions of each way."""
    tenant = (await create(client, "tenants", name="Bench"))["id"]
    endpoint = await create(
        client, "endpoints", url="http://127.0.0.1:4/", tenant_id=tenant, verification="none"
    )
    for event_type in WAYS:
        await client.put(f"/v1/event-types/{event_type}", json={})
    few = range(MATCHING)
    numbers = iter(range(SUBSCRIPTIONS))

    async def subscribe() -> None:
        for number in numbers:
            typed = BY_TYPE if number in few else f"order.invoice.other{number}"
            # each filter is another one, so that none is evaluated for several subscriptions
            country = {"$in": ["DE", "FR"]} if number in few else f"X{number}"
            conditions = {"amount": {"$gte": number}, "customer.country": country}
            for event_type, more in ((typed, {}), (BY_FILTER, {"filter": conditions}), (ALL, {})):
                await create(
                    client,
                    "subscriptions",
                    endpoint_id=endpoint["id"],
                    events=[event_type],
                    **more,
                )

    await asyncio.gather(*(subscribe() for _ in range(_CREATED_AT_ONCE)))


def _body(event_type: str) -> bytes:
    customer = {"id": "cus_8", "country": "DE", "email": "ada@example.com"}
    items = [{"sku": f"A-{n}", "quantity": n, "price": 1_990} for n in range(5)]
    data = {"amount": 129_900, "currency": "EUR", "customer": customer, "items": items}
    return json.dumps({"type": event_type, "data": data}).encode()


async def _measure(kind: str, *, count: int, rounds: int) -> None:
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    async with running_api(
        "here", Path.cwd(), postgresql=kind == "PostgreSQL", register=_register
    ) as side:
        for number in range(rounds + 1):
            for event_type in WAYS:
                requests = max(count // 20, 1) if event_type == ALL else count
                began = time.perf_counter()
                await side.measure(
                    event_type, _body(event_type), path="/v1/events", requests=requests, per=1
                )
                rates[event_type].append(requests / (time.perf_counter() - began))
            if number == 0:  # the warm-up
                side.spent.clear()
                rates = {way: [] for way in WAYS}
        _report(side, rates, kind)


def _report(side: Side, rates: dict[str, list[float]], kind: str) -> None:
    table = Table(title=f"{kind}: emitting an event to some of {SUBSCRIPTIONS:,} subscriptions")
    for column in ("deliveries", "events/s", *(f"CPU ms, {each}" for each in side.processes)):
        table.add_column(column, justify="right" if column != "deliveries" else "left")
    for event_type, way in WAYS.items():
        spent = (side.spent[event_type, process] for process in side.processes)
        table.add_row(
            way,
            f"{statistics.median(rates[event_type]):,.0f}",
            *(f"{statistics.median(each):.2f} ({min(each):.2f})" for each in spent),
        )
    console.print(table)


async def _main(arguments: argparse.Namespace) -> None:
    for kind in arguments.database or ["SQLite", "PostgreSQL"]:
        await _measure(kind, count=arguments.count, rounds=arguments.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.filters", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="events a round")
    parser.add_argument("--rounds", type=int, default=3, help="turns after the warm-up")
    parser.add_argument("--database", action="append", choices=["SQLite", "PostgreSQL"])
    uvloop.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
