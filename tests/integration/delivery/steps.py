"""The step activity, run as Temporal would run it, but at once and at any time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.attempt import AttemptRunner
from activities.delivery import DeliveryActivities
from hookfast.byte_budget import ByteBudget
from hookfast.clock import utc_now
from hookfast.deliveries.facts import Action
from hookfast.deliveries.messages import ReceivedSignals, StepInput, StepResult
from hookfast.deliveries.outcome import DeliveryStatus
from hookfast.deliveries.time_budget import FAST_LANE
from hookfast.dispatch.pace import Pace
from hookfast.sender import Sender
from hookfast.slots import Slots
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries import actions
from hookfast.storage.deliveries.actions import UserAction
from hookfast.storage.deliveries.bodies import AttemptBodies
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import Recorder
from tests.support.receiver import Receiver
from tests.support.seed import KEYRING, attempt_rows, delivery_row, seed_delivery, seed_endpoint

MIB = 1024 * 1024
_REGULAR = timedelta(seconds=75)


class Steps:
    """Deliveries to a receiver, and the step that attempts them. `deliver` only stores one."""

    def __init__(self, database: Database, receiver: Receiver, sender: Sender) -> None:
        self.database = database
        self.receiver = receiver
        self.environment = ActivityEnvironment()
        self.recorder = Recorder(database)
        loader = OutgoingLoader(database, KEYRING)
        self.budget = ByteBudget(8 * MIB, largest=4 * MIB)
        self.runner = AttemptRunner(
            loader=loader,
            bodies=AttemptBodies(database, self.budget, idle_bytes=MIB),
            sender=sender,
            recorder=self.recorder,
            public_url="https://hooks.example.com",
        )
        self.pace = Pace()
        self._activities = DeliveryActivities(
            client=None,  # type: ignore[arg-type] # nothing is cancelled in Temporal
            database=database,
            loader=loader,
            runner=self.runner,
            recorder=self.recorder,
            fast_lane=Slots(16),
            fast_lane_timeout=FAST_LANE,
            held_backstop=timedelta(hours=6),
            on_commit=lambda _: None,
            pace=self.pace,
        )
        self._runs = count()

    async def close(self) -> None:
        await self.recorder.close()
        await self.runner.close()

    async def endpoint(self, path: str, **options: Any) -> str:
        return await seed_endpoint(self.database, self.receiver.url(path), **options)

    async def deliver(self, endpoint_id: str, **options: Any) -> str:
        """Store a delivery and return its id."""
        return await seed_delivery(self.database, endpoint_id, **options)

    async def deliver_to(self, path: str, **options: Any) -> str:
        """Store a delivery to a new endpoint, step once, and return its id."""
        delivery = await self.deliver(await self.endpoint(path, **options))
        await self.step(delivery)
        return delivery

    async def step(
        self,
        delivery_id: str,
        *signals: Action,
        at: datetime | None = None,
        due: datetime | None = None,
        within: timedelta = _REGULAR,
        local: bool = False,
    ) -> StepResult:
        """Step the delivery now or at a later time, with these signals, in the regular lane unless
        `local`. `within` is the time that Temporal allows, and `due` that of the timer that fired.
        """
        received = None
        if signals:
            received = ReceivedSignals(f"run {next(self._runs)}", len(signals), signals)
        self.environment.info = replace(
            self.environment.info,
            is_local=local,
            start_to_close_timeout=within,
            schedule_to_close_timeout=within,
            scheduled_time=utc_now(),
            started_time=utc_now(),
        )
        # the endpoint's plan; and Temporal knows already when a delivery is cancelled
        order = StepInput(
            delivery_id,
            None,  # type: ignore[arg-type]
            at or utc_now(),
            due=due,
            cancelled=True,
            signals=received,
        )
        result: StepResult = await self.environment.run(self._activities.step, order)
        return result

    async def run(self, delivery_id: str) -> Any:
        """Step at every time that the row names, until it has ended or is held; return the row."""
        result = await self.step(delivery_id)
        while result.next_at is not None and result.status is not DeliveryStatus.HELD:
            result = await self.step(delivery_id, at=result.next_at)
        return await self.row(delivery_id)

    async def request(self, delivery_id: str, action: UserAction) -> None:
        """Request an action, as the API does for a person."""
        async with self.database.write() as connection:
            await actions.request(connection, delivery_id, action, now=utc_now())

    async def change_endpoint(self, change: Any, endpoint_id: str, **options: Any) -> None:
        """Change the endpoint's row, as the API does."""
        async with self.database.write() as connection:
            assert await change(connection, endpoint_id, now=utc_now(), **options)

    async def row(self, delivery_id: str) -> Any:
        return await delivery_row(self.database, delivery_id)

    async def attempts(self, delivery_id: str) -> list[Any]:
        return await attempt_rows(self.database, delivery_id)
