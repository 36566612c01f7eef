"""A random walk of stored deliveries: all that writes a delivery's state, deletes its row or
records an attempt."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from hookfast.deliveries.facts import (
    Action,
    AttemptEnded,
    AttemptPlan,
    Fact,
    Held,
    Limited,
    Trigger,
    Undeliverable,
)
from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.deliveries.life import Life, next_step
from hookfast.deliveries.outcome import Outcome, Reason, Result
from hookfast.endpoints.circuit import Cause
from hookfast.errors import NotFound
from hookfast.events.operational import SYSTEM_TENANT
from hookfast.ids import new_id
from hookfast.storage.counting import folding
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import lives, outbox
from hookfast.storage.deliveries.life_rows import COLUMNS, life_of
from hookfast.storage.deliveries.recorder import AttemptRecord, Recorder
from hookfast.storage.emitting import late_subscribers
from hookfast.storage.emitting.emit import Emitter
from hookfast.storage.emitting.late_subscribers import LateScope
from hookfast.storage.endpoints import endpoint_state, subscriptions
from hookfast.storage.events import events
from hookfast.storage.events.new_events import NewEvent
from hookfast.storage.retention.sweeps import sweep_batch
from hookfast.storage.tables import (
    Endpoint,
    Event,
    EventType,
    Subscription,
    SubscriptionPattern,
)
from hookfast.telemetry.traceparent import new as new_traceparent
from tests.integration.storage.counting.expected import Expected
from tests.integration.storage.emitting.emitters import process
from tests.integration.storage.retention.ended import MINUTES, NO_RETRIES, answer
from tests.support.seed import EVENT_TYPE, seed_endpoint

_START: Final = datetime(2026, 11, 20, 12, 0, 30, tzinfo=UTC)
_TYPES: Final = (EVENT_TYPE, "order.invoice.due")
_OUTCOMES: Final = (
    *(answer(200), answer(200), answer(503), answer(503), answer(404), answer(410)),
    Outcome(result=Result.TIMEOUT, duration_ms=10_000, error="No answer within 10 s."),
    replace(answer(200), duration_ms=730.5),
)
_AT_ONCE: Final = 1_000


class Walker:
    """Takes random steps. The rows must have been read since the step before (`expected`)."""

    def __init__(self, database: Database, emitter: Emitter, recorders: list[Recorder]) -> None:
        self.now = _START
        self.expected = Expected(database)
        self._database = database
        self._emitter = emitter
        self._recorders = recorders
        self._dice = random.Random()
        self._endpoints: list[str] = []
        self._under_way: list[tuple[str, AttemptPlan, datetime]] = []
        self._late: list[tuple[str, Fact]] = []
        self._recorded: list[AttemptRecord] = []

    async def prepare(self, seed: int) -> None:
        """Store endpoints of three tenants, the last of which is the operators' own."""
        self._dice.seed(seed)
        for options in ({"ordered": True}, {}, {}):
            url = "https://example.com/hook"
            self._endpoints.append(await seed_endpoint(self._database, url, **options))
        async with self._database.write() as connection:
            times = {"created_at": self.now, "updated_at": self.now}
            types = [{"name": name, "description": "", **times} for name in _TYPES]
            await connection.execute(insert(EventType.__table__), types)
            for table, key in ((Endpoint, "id"), (Subscription, "endpoint_id")):
                c = table.__table__.c
                await connection.execute(
                    update(table.__table__)
                    .where(c[key] == self._endpoints[-1])
                    .values(tenant_id=SYSTEM_TENANT)
                )
            for row in (await connection.execute(select(Subscription.__table__))).all():
                pattern = "hookfast.**" if row.tenant_id == SYSTEM_TENANT else "**"
                found = {"pattern": pattern, "tenant_id": row.tenant_id, "subscription_id": row.id}
                await connection.execute(insert(SubscriptionPattern.__table__), found)

    async def step(self) -> str:
        """Take a step, and return its name."""
        names = list(STEPS)
        [name] = self._dice.choices(names, [weight for weight, _ in STEPS.values()])
        await STEPS[name][1](self)
        return name

    # -- steps -------------------------------------------------------------------------------------

    async def pass_time(self) -> None:
        self.now += timedelta(seconds=self._dice.choice((0, 1, 59, 60, 700)))

    async def emit(self) -> None:
        """Emit events, some of them in order, some for later."""
        some = [
            NewEvent(
                type=self._dice.choice(_TYPES),
                data="{}",
                value={},
                ordering_key=self._dice.choice((None, "a", "b")),
                deliver_at=self._dice.choice((None, None, self.now + timedelta(minutes=2))),
            )
            for _ in range(self._dice.randint(1, 3))
        ]
        await self._emitter.emit(some, scope="a", traceparent=new_traceparent())

    async def subscribe_late(self) -> None:
        """Deliver an old event to a subscription that is new."""
        async with self._database.write() as connection:
            c = Event.__table__.c
            ids = (await connection.execute(select(c.id).where(c.type.in_(_TYPES)))).scalars().all()
            if not ids:
                return
            endpoint = self._dice.choice(self._endpoints[:2])
            e = Endpoint.__table__.c
            tenant_id = await connection.scalar(select(e.tenant_id).where(e.id == endpoint))
            new = Subscription(
                id=new_id("sub", self.now),
                endpoint_id=endpoint,
                tenant_id=tenant_id,
                events=["**"],
                payload="full",
                created_at=self.now,
                updated_at=self.now,
            )
            await subscriptions.add(connection, new)
            event = await events.get_summary(connection, self._dice.choice(ids))
            assert event is not None
            await late_subscribers.deliver(connection, event, LateScope(), now=self.now)
            await subscriptions.remove(connection, new.id)

    async def act(self) -> None:
        """Request something of some deliveries, as people and jobs do."""
        action = self._dice.choice(list(Action))
        await self._apply([(one, action) for one in self._some()], wake=2)

    async def begin(self) -> None:
        """Begin the attempts that are due, or will be."""
        for one, plan in self._due(self._some(still_open=True)):
            self._under_way.append((one, plan, self.now))

    async def batch(self) -> None:
        """Let a batch make first attempts, and give the rest back."""
        batch_id = new_id("btc", self.now)
        some = [
            id_ for id_ in self._some(still_open=True) if self.expected.rows[id_].started_at is None
        ]
        until = self.now + timedelta(seconds=60)
        async with self._database.write() as connection:
            await outbox.lease(connection, some, until=until, batch_id=batch_id)
        due = self._due(some)
        if due:
            made = [
                self._record(one, plan, self.now, in_batch=True, first_try=True)
                for one, plan in due[: len(due) // 2 + 1]
            ]
            await self._record_all(made)
        async with self._database.write() as connection:
            await outbox.leave_batch(connection, some, batch_id=batch_id)

    async def record(self) -> None:
        """Record attempts in a group, of which some are late."""
        self._dice.shuffle(self._under_way)
        some, self._under_way = self._under_way[:3], self._under_way[3:]
        await self._record_all([self._record(*one, first_try=True) for one in some])

    async def record_again(self) -> None:
        """Record attempts once more, as a caller does that has got no answer."""
        if not self._recorded:
            return
        again = self._dice.choices(self._recorded, k=2)
        await self._record_all([replace(one, first_try=False) for one in again])
        # what takes itself for the first try does not look whether it is known, and fails
        with suppress(IntegrityError, NotFound):
            await self._recorders[0].record(replace(again[0], first_try=True))

    async def postpone(self) -> None:
        """Hold, limit or give up attempts; some of that is applied much later."""
        facts = [
            (one, self._postponed(plan)) for one, plan in self._due(self._some(still_open=True))
        ]
        number = self._dice.randint(0, len(facts))
        self._late += facts[number:]
        await self._apply(facts[:number])

    async def apply_late(self) -> None:
        late, self._late = self._late, []
        await self._apply(late)

    async def move_up(self) -> None:
        """Let a worker look for lanes without a head."""
        lanes = {row.lane for row in self.expected.rows.values() if row.lane is not None}
        if lanes:
            async with self._database.write() as connection:
                await lives.advance(connection, lanes, now=self.now)

    async def switch(self) -> None:
        """Disable an endpoint, or enable it."""
        endpoint = self._dice.choice(self._endpoints[:2])
        async with self._database.write() as connection:
            if not await endpoint_state.enable(connection, endpoint, now=self.now):
                await endpoint_state.disable(
                    connection, endpoint, cause=Cause.DISABLED, reason="Test.", now=self.now
                )

    async def roll_back(self) -> None:
        """Apply facts in a transaction that fails."""
        facts: list[tuple[str, Fact]] = [(one, Action.CANCEL) for one in self._some()]
        try:
            async with self._database.write() as connection:
                await lives.apply(connection, facts, now=self.now, wake=2)
                raise InterruptedError
        except InterruptedError:
            pass

    async def delete_old(self) -> None:
        """Delete what retention deletes. Figures stay, and gauges do not."""
        cutoff = self.now - timedelta(minutes=self._dice.choice((5, 30)))
        cutoffs = dict.fromkeys(("attempts", "dead_letters", "deliveries"), cutoff)
        async with self.expected.deleting():
            for name in cutoffs:
                async with self._database.write() as connection:
                    await sweep_batch(
                        *(connection, name, cutoffs),
                        after=None,
                        limit=_AT_ONCE,
                        dry_run=False,
                        now=self.now,
                    )

    async def fold(self) -> None:
        await folding.fold(self._database)

    # -- what they need ----------------------------------------------------------------------------

    def _some(self, *, still_open: bool = False) -> list[str]:
        """Choose some deliveries, more often new ones."""
        rows = sorted(self.expected.rows.items())
        ids = [id_ for id_, row in rows if not still_open or row.finished_at is None]
        if not ids:
            return []
        latest = ids[-20:] if self._dice.random() < 0.7 else ids
        return sorted(set(self._dice.choices(latest, k=self._dice.randint(1, 5))))

    def _due(self, ids: list[str]) -> list[tuple[str, AttemptPlan]]:
        """Return the attempts of these deliveries that a worker would make, some a little early."""
        found = []
        for id_ in ids:
            probe = self._dice.random() < 0.3
            later = self.now + timedelta(seconds=self._dice.choice((0, 70, 700)))
            step = next_step(_life(self.expected.rows[id_]), later, probe=probe)
            if isinstance(step, AttemptPlan):
                found.append((id_, step))
        return found

    def _postponed(self, plan: AttemptPlan) -> Fact:
        until = self.now + timedelta(seconds=90)
        facts: list[Fact] = [
            Limited(plan, until),
            Undeliverable(plan, Reason.MAPPING_FAILED, "No body."),
        ]
        if plan.trigger is not Trigger.RESEND or plan.yields_to_circuit:
            facts += 3 * [Held(plan, Reason.CIRCUIT_OPEN, until)]
        return self._dice.choice(facts)

    def _record(
        self, delivery_id: str, plan: AttemptPlan, began: datetime, **options: Any
    ) -> AttemptRecord:
        ended = AttemptEnded(
            attempt_id=new_id("att", began),
            attempt=plan,
            started_at=began,
            outcome=self._dice.choice(_OUTCOMES),
            plan=self._dice.choice((MINUTES, NO_RETRIES)),
            timeout_seconds=10,
            jitter=0.5,
        )
        return AttemptRecord(delivery_id=delivery_id, ended=ended, limited=False, **options)

    async def _record_all(self, records: list[AttemptRecord]) -> None:
        """Record these in one group. Those of deliveries that retention has deleted fail."""
        recorder = self._dice.choice(self._recorders)
        done = await asyncio.gather(*map(recorder.record, records), return_exceptions=True)
        for record, result in zip(records, done, strict=True):
            if isinstance(result, BaseException):
                assert isinstance(result, NotFound), result
                assert record.delivery_id not in self.expected.rows
        self._recorded += records

    async def _apply(self, facts: list[tuple[str, Any]], *, wake: int | None = None) -> None:
        policy = self._dice.choice(list(DeadLetterPolicy))
        async with self._database.write() as connection:
            await lives.apply(connection, facts, now=self.now, wake=wake, dead_letters=policy)


def _life(row: Any) -> Life:
    return life_of([getattr(row, column.name) for column in COLUMNS])


STEPS: Final[dict[str, tuple[int, Callable[[Walker], Awaitable[None]]]]] = {
    "time passes": (4, Walker.pass_time),
    "events are emitted": (6, Walker.emit),
    "an event gets a late subscriber": (1, Walker.subscribe_late),
    "something is requested": (8, Walker.act),
    "attempts begin": (8, Walker.begin),
    "attempts are recorded": (8, Walker.record),
    "attempts are recorded again": (3, Walker.record_again),
    "a batch makes attempts": (2, Walker.batch),
    "attempts are postponed": (6, Walker.postpone),
    "a late decision is applied": (2, Walker.apply_late),
    "lanes get heads": (1, Walker.move_up),
    "an endpoint is switched": (1, Walker.switch),
    "a transaction is rolled back": (1, Walker.roll_back),
    "retention deletes rows": (1, Walker.delete_old),
    "entries are added up": (3, Walker.fold),
}


@asynccontextmanager
async def walking(database: Database, seed: int) -> AsyncIterator[Walker]:
    """Yield a walker that has not taken a step."""
    async with process(database.url, clock=lambda: walker.now) as emitter:
        recorders = [
            Recorder(database, dead_letters=policy, clock=lambda: walker.now)
            for policy in DeadLetterPolicy
        ]
        walker = Walker(database, emitter, recorders)
        await walker.prepare(seed)
        yield walker
