"""The parts of a worker process: built from its settings, for `worker.py` to run and to close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from temporalio.client import Client

from activities.attempt import AttemptRunner
from activities.batch import BatchActivities
from activities.circuit_breaker import CircuitActivities
from activities.daily import DailyActivities
from activities.delivery import DeliveryActivities
from activities.job import JobActivities
from activities.owner_mail import MailActivities
from activities.retention import RetentionActivities
from hookfast.byte_budget import ByteBudget
from hookfast.dispatch.pace import Pace
from hookfast.dispatch.relay import Relay
from hookfast.dispatch.workflow_starter import workflow_starter_for
from hookfast.mail import transport_of
from hookfast.sender import sender_of
from hookfast.settings.settings import Settings
from hookfast.signing.encryption import encrypted_size
from hookfast.signing.portal_link import OwnerLinks
from hookfast.slots import Slots
from hookfast.storage.database.doorbell import doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.bodies import SEND_BUFFER, AttemptBodies
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import Recorder, Wakeup
from hookfast.storage.keys.keyring import keyring_of

_ENVELOPE_BYTES = 1_024  # what an event's body has around its data, at most

Activities = Sequence[Callable[..., Any]]


class WorkerParts:
    """The activities and the background work of a worker process, and what they share. They do
    nothing yet. Raises Misconfigured."""

    def __init__(self, settings: Settings, client: Client, database: Database) -> None:
        loader = OutgoingLoader(database, keyring_of(settings))
        bodies = AttemptBodies(
            database,
            ByteBudget(settings.max_body_memory, largest=_largest_body(settings)),
            idle_bytes=settings.max_body_memory // 8,
        )
        self.workflow_starter = workflow_starter_for(settings, client, database)
        self.sender = sender_of(settings)
        self.doorbell = doorbell_for(database)
        self.recorder = Recorder(
            database,
            policy=settings.circuit_policy,
            dead_letters=settings.ordered_dead_letters,
            on_commit=self._on_commit,
        )
        self.pace = Pace(
            settings.first_attempts,
            most_claimed=settings.relay_batch,
            most_slow=settings.max_concurrent_attempts,
        )
        self.runner = AttemptRunner(
            loader=loader,
            bodies=bodies,
            sender=self.sender,
            recorder=self.recorder,
            public_url=settings.resolved_public_url,
        )
        self.deliveries = DeliveryActivities(
            client=client,
            database=database,
            loader=loader,
            runner=self.runner,
            recorder=self.recorder,
            fast_lane=Slots(settings.max_concurrent_attempts),
            fast_lane_timeout=settings.fast_lane_timeout,
            held_backstop=settings.held_backstop,
            on_commit=self._on_commit,
            pace=self.pace,
            dead_letters=settings.ordered_dead_letters,
        )
        self.relay = Relay(
            client=client,
            database=database,
            loader=loader,
            doorbell=self.doorbell,
            lease=settings.relay_lease,
            fast_lane_timeout=settings.fast_lane_timeout,
            pace=self.pace,
        )
        self.batches = BatchActivities(
            client=client,
            database=database,
            loader=loader,
            runner=self.runner,
            recorder=self.recorder,
            pace=self.pace,
            batches=self.relay.batches,
            on_commit=self._on_commit,
        )
        self.control = _control_activities(settings, database, self._on_commit)

    def _on_commit(self, news: Wakeup) -> None:
        if news & Wakeup.CIRCUIT:
            self.workflow_starter.wake()
        if news & Wakeup.OUTBOX:
            self.doorbell.ring()


def _largest_body(settings: Settings) -> int:
    """Return the bytes that the largest attempt needs: a body, its encrypted form, and a part of it
    on its way to the socket."""
    body = max(settings.max_inbox_bytes, settings.max_event_bytes) + _ENVELOPE_BYTES
    return body + encrypted_size(body) + SEND_BUFFER


def _control_activities(
    settings: Settings, database: Database, on_commit: Callable[[Wakeup], None]
) -> Activities:
    """Return the activities of circuits, jobs, owners' mail, the daily run and retention."""
    circuits = CircuitActivities(
        database=database, policy=settings.circuit_policy, on_commit=on_commit
    )
    jobs = JobActivities(database=database, on_commit=on_commit)
    mail = MailActivities(
        database=database,
        transport=transport_of(settings),
        mail_from=settings.mail_from,
        public_url=settings.resolved_public_url,
        at_once=max(1, settings.max_concurrent_control // 10),
        links=OwnerLinks(keyring_of(settings), settings.owner_link_lifetime)
        if settings.owner_link_lifetime
        else None,
    )
    daily = DailyActivities(database=database.background)
    retention = RetentionActivities(database=database.background, ages=settings.ages)
    return [*circuits.all, *jobs.all, *mail.all, *daily.all, *retention.all]
