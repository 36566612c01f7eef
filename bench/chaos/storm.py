"""The storm: faults that hit the service one after the other, and end.

| fault              | what happens                                                   | lasts
|--------------------|----------------------------------------------------------------|---------
| worker killed      | SIGKILL of one worker                                          | 0.5–3 s
| worker stopped     | SIGSTOP, later SIGCONT                                         | 3–20 s
| relay killed       | a worker dies when it has started workflows, not marked rows   | 0.5–3 s
| API killed         | SIGKILL                                                        | 0.5–3 s
| Temporal killed    | SIGKILL; started again on the same file and port               | 0.5–4 s
| Temporal away      | the same for minutes, only with `--only "Temporal away"`       | 10 min
| PostgreSQL killed  | SIGKILL of all its processes; started again on its data        | 1–6 s
| PostgreSQL stopped | SIGSTOP of all its processes                                   | 3–12 s
| PostgreSQL crashed | SIGKILL of one session; the recovery from that is made to last | 2–8 s
| primary killed     | SIGKILL; after 1–4 s its synchronous standby takes over        | 3–10 s
| sessions ended     | every session of PostgreSQL is ended, a few times              | 1–4 s
| no connection left | somebody takes all connections, and ends all others            | 5–30 s
| SQLite locked      | another process holds the write lock (BEGIN EXCLUSIVE)         | 3–12 s
| disk full          | a ballast file fills the database's own disk to the last byte  | 3–8 s
| clock jumps        | the clock of the API or a worker is an hour or a minute off    | 3–12 s
| database's clock … | the clock of PostgreSQL is a minute off                        | 3–12 s
| endpoint away      | `/moody` answers 503, so that its circuit opens                | 4–10 s

Kinds are drawn from a shuffled deck, so that each occurs before any occurs twice.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import time
from collections.abc import Awaitable, Callable
from typing import Final

from bench.chaos.clock import libfaketime
from bench.chaos.database import END_SESSIONS, Postgresql, PostgresqlPair, Sqlite
from bench.chaos.evidence import Evidence
from bench.chaos.part import Part
from bench.chaos.service import Service

WORKER_KILLED: Final = "worker killed"
WORKER_STOPPED: Final = "worker stopped"
RELAY_KILLED: Final = "relay killed"
API_KILLED: Final = "API killed"
TEMPORAL_KILLED: Final = "Temporal killed"
TEMPORAL_AWAY: Final = "Temporal away"
"""Killed for minutes. Only on request: the other faults would have to wait that long."""
POSTGRESQL_KILLED: Final = "PostgreSQL killed"
POSTGRESQL_STOPPED: Final = "PostgreSQL stopped"
POSTGRESQL_CRASHED: Final = "PostgreSQL crashed"
PRIMARY_KILLED: Final = "primary killed"
SESSIONS_ENDED: Final = "sessions ended"
NO_CONNECTION_LEFT: Final = "no connection left"
SQLITE_LOCKED: Final = "SQLite locked"
DISK_FULL: Final = "disk full"
CLOCK_JUMPS: Final = "clock jumps"
DATABASE_CLOCK_JUMPS: Final = "database's clock jumps"
ENDPOINT_AWAY: Final = "endpoint away"

KILLS: Final = {
    "api": API_KILLED,
    "worker": WORKER_KILLED,
    "relay": RELAY_KILLED,
    "temporal": TEMPORAL_KILLED,
    "postgresql": POSTGRESQL_KILLED,
    "primary": PRIMARY_KILLED,
}
"""The values of `--kill`."""
CLOCKS: Final = (CLOCK_JUMPS, DATABASE_CLOCK_JUMPS)
"""They need `faketime`. On SQLite all processes have the clock of one machine."""
WITH_STANDBY: Final = (PRIMARY_KILLED,)
ON_SQLITE: Final = (SQLITE_LOCKED,)
_POSTGRESQL_FAULTS: Final = (
    POSTGRESQL_KILLED,
    POSTGRESQL_STOPPED,
    POSTGRESQL_CRASHED,
    SESSIONS_ENDED,
    NO_CONNECTION_LEFT,
)
ON_POSTGRESQL: Final = (*_POSTGRESQL_FAULTS, *CLOCKS)
DATABASE_FAULTS: Final = (
    *_POSTGRESQL_FAULTS,
    DATABASE_CLOCK_JUMPS,
    *WITH_STANDBY,
    *ON_SQLITE,
    DISK_FULL,
)
"""Faults that can delay or prevent the record of a request. A wrong clock of our own cannot."""
KINDS: Final = (
    WORKER_KILLED,
    WORKER_STOPPED,
    RELAY_KILLED,
    API_KILLED,
    TEMPORAL_KILLED,
    *DATABASE_FAULTS,
    CLOCK_JUMPS,
    ENDPOINT_AWAY,
    TEMPORAL_AWAY,
)

AnyPostgresql = Postgresql | PostgresqlPair

_FRONTS = 2
"""Faults at once, of different parts."""
AWAY: Final = 600.0
"""Seconds for which Temporal is away."""
CALM: Final = 5.0
"""Most seconds between two faults; at least a fifth of them lie in between."""
_RELAY_PATIENCE = 10.0
"""A relay with nothing to start for this long is killed anyway."""


class Storm:
    """Causes faults until `stop`; then the current faults end, and every part is repaired."""

    def __init__(
        self,
        service: Service,
        evidence: Evidence,
        *,
        seed: str,
        calm: float = CALM,
        only: str | None = None,
        away: float = AWAY,
    ) -> None:
        self._service = service
        self._evidence = evidence
        self._calm = calm
        self._away = away
        self._random = random.Random(f"storm {seed}")
        self._over = asyncio.Event()
        self._busy: set[str] = set()
        self._deck: list[str] = []
        self._faults = self._possible()
        if only is not None:
            self._faults = {only: self._faults[only]}
        else:
            del self._faults[TEMPORAL_AWAY]

    def stop(self) -> None:
        """Start no more faults."""
        self._over.set()

    async def run(self) -> None:
        """Cause faults until stopped, and wait until every part is repaired."""
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_FRONTS, len(self._faults))):
                group.create_task(self._front())

    async def _front(self) -> None:
        while not await self._is_over_after(self._random.uniform(self._calm / 5, self._calm)):
            if not self._deck:
                self._deck = list(self._faults)
                self._random.shuffle(self._deck)
            kind = self._deck.pop()
            part, act = self._faults[kind]
            if part in self._busy:
                continue
            self._busy.add(part)
            try:
                await act()
            finally:
                self._busy.discard(part)

    async def _is_over_after(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    def _possible(self) -> dict[str, tuple[str, Callable[[], Awaitable[None]]]]:
        """Return the faults and the part that each hits. A part has one fault at a time."""
        database = self._service.database
        faults: dict[str, tuple[str, Callable[[], Awaitable[None]]]] = {
            WORKER_KILLED: ("workers", self._kill_worker),
            WORKER_STOPPED: ("workers", self._stop_worker),
            RELAY_KILLED: ("workers", self._kill_relay),
            API_KILLED: ("api", self._kill_api),
            TEMPORAL_KILLED: ("temporal", self._kill_temporal),
            TEMPORAL_AWAY: ("temporal", self._leave_temporal_away),
            ENDPOINT_AWAY: ("receiver", self._endpoint_away),
        }
        if isinstance(database, Sqlite):
            faults[SQLITE_LOCKED] = "database", lambda: self._lock(database)
        else:
            faults[POSTGRESQL_KILLED] = "database", lambda: self._kill_postgresql(database)
            faults[POSTGRESQL_STOPPED] = "database", lambda: self._stop_postgresql(database)
            faults[POSTGRESQL_CRASHED] = "database", lambda: self._crash_postgresql(database)
            if libfaketime() is not None:
                faults[CLOCK_JUMPS] = "clocks", self._clock_jumps
                faults[DATABASE_CLOCK_JUMPS] = "database", self._database_clock_jumps
            faults[SESSIONS_ENDED] = "database", lambda: self._end_sessions(database)
            faults[NO_CONNECTION_LEFT] = "database", lambda: self._take_connections(database)
        if isinstance(database, PostgresqlPair):
            faults[PRIMARY_KILLED] = "database", lambda: self._fail_over(database)
        elif self._service.disk.can_be_full:  # with a standby, both would be on this disk
            faults[DISK_FULL] = "database", self._fill_disk
        return faults

    # -- the faults ----------------------------------------------------------------------------

    async def _pause(self, least: float, most: float) -> None:
        await asyncio.sleep(self._random.uniform(least, most))

    def _worker(self) -> Part:
        return self._random.choice(self._service.workers)

    async def _kill_worker(self) -> None:
        worker = self._worker()
        with self._evidence.fault(WORKER_KILLED, worker.pid):
            await worker.kill()
            await self._pause(0.5, 3)
            await worker.start()

    async def _stop_worker(self) -> None:
        worker = self._worker()
        with self._evidence.fault(WORKER_STOPPED, worker.pid):
            worker.freeze()
            try:
                await self._pause(3, 20)
            finally:
                worker.thaw()

    async def _kill_relay(self) -> None:
        worker = self._worker()
        with self._evidence.fault(RELAY_KILLED, worker.pid) as fault:
            await worker.kill(signal.SIGUSR1, patience=_RELAY_PATIENCE)
            fault.begun = time.time()
            await self._pause(0.5, 3)
            await worker.start()

    async def _kill_api(self) -> None:
        with self._evidence.fault(API_KILLED):
            await self._service.api.kill()
            await self._pause(0.5, 3)
            await self._service.start_api()

    async def _kill_temporal(self) -> None:
        with self._evidence.fault(TEMPORAL_KILLED):
            await self._service.temporal.kill()
            await self._pause(0.5, 4)
            await self._service.start_temporal()

    async def _leave_temporal_away(self) -> None:
        with self._evidence.fault(TEMPORAL_AWAY):
            await self._service.temporal.kill()
            await asyncio.sleep(self._away)
            await self._service.start_temporal()
        self.stop()  # once

    async def _kill_postgresql(self, database: AnyPostgresql) -> None:
        with self._evidence.fault(POSTGRESQL_KILLED):
            await database.part.kill()
            await self._pause(1, 6)
            await database.start()

    async def _stop_postgresql(self, database: AnyPostgresql) -> None:
        with self._evidence.fault(POSTGRESQL_STOPPED):
            database.part.freeze()
            try:
                await self._pause(3, 12)
            finally:
                database.part.thaw()

    async def _crash_postgresql(self, database: AnyPostgresql) -> None:
        with self._evidence.fault(POSTGRESQL_CRASHED):
            async with database.recovering():
                await self._pause(2, 8)

    async def _end_sessions(self, database: AnyPostgresql) -> None:
        with self._evidence.fault(SESSIONS_ENDED):
            for _ in range(self._random.randint(1, 4)):
                await database.primary.run(END_SESSIONS)
                await self._pause(0.1, 1)

    async def _take_connections(self, database: AnyPostgresql) -> None:
        with self._evidence.fault(NO_CONNECTION_LEFT):
            async with database.primary.taken():
                await self._pause(5, 30)

    async def _fail_over(self, database: PostgresqlPair) -> None:
        with self._evidence.fault(PRIMARY_KILLED):
            await database.fail_over(lambda: self._pause(1, 4))

    async def _lock(self, database: Sqlite) -> None:
        try:
            async with database.locked():
                with self._evidence.fault(SQLITE_LOCKED):
                    await self._pause(3, 12)
        except sqlite3.Error:
            pass  # a frozen worker has the lock

    async def _fill_disk(self) -> None:
        with self._evidence.fault(DISK_FULL):
            await asyncio.to_thread(self._service.disk.fill)
            try:
                await self._pause(3, 8)
            finally:
                self._service.disk.free()

    async def _clock_jumps(self) -> None:
        part = self._random.choice([self._service.api, *self._service.workers])
        await self._jump(CLOCK_JUMPS, part, self._random.choice([-3600, -60, 60, 3600]))

    async def _database_clock_jumps(self) -> None:
        part = self._service.database.part
        if part is not None:
            await self._jump(DATABASE_CLOCK_JUMPS, part, self._random.choice([-60, 60]))

    async def _jump(self, kind: str, part: Part, seconds: float) -> None:
        if part.clock is None:
            return
        with self._evidence.fault(kind):
            part.clock.set(seconds)
            try:
                await self._pause(3, 12)
            finally:
                part.clock.set(0)

    async def _endpoint_away(self) -> None:
        seconds = self._random.uniform(4, 10)
        with self._evidence.fault(ENDPOINT_AWAY):
            await self._service.ask_receiver(f"/outage?{seconds:.1f}")
            await asyncio.sleep(seconds)
