"""Starts the workflows of claimed deliveries, or wakes those that run: the most urgent first, and
as many at once as the pace allows."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from hookfast.clock import Clock, utc_now
from hookfast.dispatch.pace import Pace
from hookfast.dispatch.start import start_or_wake
from hookfast.storage.deliveries.outbox import PendingDelivery
from hookfast.storage.deliveries.outgoing import DeliveryWithEndpoint, OutgoingLoader
from hookfast.telemetry import instruments, spans

_LEASE_LEFT = 0.25
"""A start is made while this part of its lease is left, so that the row is marked before another
relay may take it. That one might make the first attempt at the same moment, in a batch."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, order=True)
class _Waiting:
    """A claimed delivery that waits for its start, in the order in which they start."""

    urgency: int
    number: int
    one: DeliveryWithEndpoint = field(compare=False)
    lease: datetime = field(compare=False)

    @property
    def row(self) -> PendingDelivery:
        return self.one.row


class Starts:
    """The starts of one relay. `on_started` is called with each row that Temporal has, and
    `on_failed` with each whose lease may end, with Temporal's error if it was away."""

    def __init__(
        self,
        client: Client,
        *,
        loader: OutgoingLoader,
        pace: Pace,
        lease: timedelta,
        fast_lane_timeout: timedelta,
        on_started: Callable[[PendingDelivery], None],
        on_failed: Callable[[PendingDelivery, datetime, RPCError | None], None],
        clock: Clock = utc_now,
    ) -> None:
        self._client = client
        self._loader = loader
        self._pace = pace
        self._lease = lease
        self._fast_lane_timeout = fast_lane_timeout
        self._on_started = on_started
        self._on_failed = on_failed
        self._clock = clock
        self._numbers = itertools.count()
        self._queue: list[_Waiting] = []
        self._begun: dict[asyncio.Task[None], _Waiting] = {}
        self._closed = False
        pace.on_room = self.admit

    @property
    def rows(self) -> Iterable[PendingDelivery]:
        """The deliveries that wait for their start, and those that are being started."""
        yield from (one.row for one in self._queue)
        yield from (one.row for one in self._begun.values())

    def count(self, *urgencies: int) -> int:
        """How many of these urgencies are in hand."""
        return sum(row.urgency in urgencies for row in self.rows)

    @property
    def tasks(self) -> Sequence[asyncio.Task[None]]:
        """The starts that are being made."""
        return list(self._begun)

    def __len__(self) -> int:
        return len(self._queue) + len(self._begun)

    def add(self, deliveries: Iterable[DeliveryWithEndpoint], *, lease: datetime) -> None:
        """Start these deliveries, which are leased until then, when it is their turn."""
        for one in deliveries:
            waiting = _Waiting(one.row.urgency, next(self._numbers), one, lease)
            heapq.heappush(self._queue, waiting)
        self.admit()

    def admit(self) -> None:
        """Begin the starts whose turn it is. Those whose leases end soon are not made, and those
        that wait when the relay stops are not either: their rows are released for another relay."""
        while self._queue and (self._closed or self._pace.may_start):
            waiting = heapq.heappop(self._queue)
            if self._closed or self._clock() > waiting.lease - _LEASE_LEFT * self._lease:
                self._on_failed(waiting.row, waiting.lease, None)
                instruments.RELAY_STARTS.add(carrier="workflow", result="failed")
                continue
            self._pace.start_begins(waiting.row.delivery_id)
            task = asyncio.create_task(
                self._start(waiting), name=f"start-{waiting.row.delivery_id}"
            )
            self._begun[task] = waiting
            task.add_done_callback(self._over)

    def close(self) -> None:
        """Make no more starts."""
        self._closed = True
        self.admit()

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._begun[task]
        self.admit()

    async def _start(self, waiting: _Waiting) -> None:
        """Start or wake one delivery's workflow, and count the result."""
        row = waiting.row
        with spans.start_of_delivery(
            self._loader.traceparent_of(row.event_id),
            event_type=row.event_type,
            # a row that was put back has waited only since then
            since=row.due_from if row.new else self._clock(),
            ids={"delivery": row.delivery_id, "endpoint": row.endpoint_id},
        ):
            result = await self._start_workflow(waiting)
        instruments.RELAY_STARTS.add(carrier="workflow", result=result)

    async def _start_workflow(self, waiting: _Waiting) -> str:
        """Return the result: `started`, `exists`, `failed` or `refused`."""
        row, endpoint = waiting.row, waiting.one.endpoint
        result, answered, step_here = "started", False, False
        try:
            step_here = await start_or_wake(
                self._client, row, endpoint, fast_lane_timeout=self._fast_lane_timeout
            )
            answered = True
        except WorkflowAlreadyStartedError:
            result = "exists"  # it has run already, which counts as started
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                self._on_failed(row, waiting.lease, error)
                return "failed"
            self._log_rejected(row, error)
            return "refused"
        except Exception as error:  # our own error: one row must not delay the others
            self._log_rejected(row, error)
            return "refused"
        finally:
            self._pace.start_ended(row.delivery_id, answered=answered, step_here=step_here)
        self._on_started(row)
        return result

    def _log_rejected(self, row: PendingDelivery, error: Exception) -> None:
        """Log a row that cannot be started. It is tried again when its lease ends."""
        log.error("A delivery cannot be started.", delivery_id=row.delivery_id, exc_info=error)
