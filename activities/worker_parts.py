"""The parts of a worker process: built from its settings, for `worker.py` to run and to close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from hookfast.dispatch.workflow_starter import WorkflowStarter, workflow_starter_for
from hookfast.mail import transport_of
from hookfast.sender import Sender, sender_of
from hookfast.settings.settings import Settings
from hookfast.signing.encryption import encrypted_size
from hookfast.signing.portal_link import OwnerLinks
from hookfast.slots import Slots
from hookfast.storage.database.doorbell import Doorbell, doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.deliveries.bodies import SEND_BUFFER, AttemptBodies
from hookfast.storage.deliveries.outgoing import OutgoingLoader
from hookfast.storage.deliveries.recorder import Recorder, Wakeup
from hookfast.storage.keys.keyring import keyring_of

_ENVELOPE_BYTES = 1_024  # what an event's body has around its data, at most

Activities = Sequence[Callable[..., Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """The activities and the background work of a worker process, and what they share."""

    deliveries: DeliveryActivities
    batches: BatchActivities
    control: Activities
    relay: Relay
    workflow_starter: WorkflowStarter
    doorbell: Doorbell
    pace: Pace
    recorder: Recorder
    runner: AttemptRunner
    sender: Sender


def build_parts(settings: Settings, client: Client, database: Database) -> WorkerParts:
    """Return the parts of a worker process, which do nothing yet. Raises Misconfigured."""
    loader = OutgoingLoader(database, keyring_of(settings))
    bodies = AttemptBodies(
        database,
        ByteBudget(settings.max_body_memory, largest=_largest_body(settings)),
        idle_bytes=settings.max_body_memory // 8,
    )
    workflow_starter = workflow_starter_for(settings, client, database)
    sender = sender_of(settings)
    doorbell = doorbell_for(database)

    def on_commit(news: Wakeup) -> None:
        if news & Wakeup.CIRCUIT:
            workflow_starter.wake()
        if news & Wakeup.OUTBOX:
            doorbell.ring()

    recorder = Recorder(
        database,
        policy=settings.circuit_policy,
        dead_letters=settings.ordered_dead_letters,
        on_commit=on_commit,
    )
    pace = Pace(
        settings.first_attempts,
        most_claimed=settings.relay_batch,
        most_slow=settings.max_concurrent_attempts,
    )
    runner = AttemptRunner(
        loader=loader,
        bodies=bodies,
        sender=sender,
        recorder=recorder,
        public_url=settings.resolved_public_url,
    )
    deliveries = DeliveryActivities(
        client=client,
        database=database,
        loader=loader,
        runner=runner,
        recorder=recorder,
        fast_lane=Slots(settings.max_concurrent_attempts),
        fast_lane_timeout=settings.fast_lane_timeout,
        held_backstop=settings.held_backstop,
        on_commit=on_commit,
        pace=pace,
        dead_letters=settings.ordered_dead_letters,
    )
    relay = Relay(
        client=client,
        database=database,
        loader=loader,
        doorbell=doorbell,
        lease=settings.relay_lease,
        fast_lane_timeout=settings.fast_lane_timeout,
        pace=pace,
    )
    batch_activities = BatchActivities(
        client=client,
        database=database,
        loader=loader,
        runner=runner,
        recorder=recorder,
        pace=pace,
        batches=relay.batches,
        on_commit=on_commit,
    )
    return WorkerParts(
        deliveries=deliveries,
        batches=batch_activities,
        control=_control_activities(settings, database, on_commit),
        relay=relay,
        workflow_starter=workflow_starter,
        doorbell=doorbell,
        pace=pace,
        recorder=recorder,
        runner=runner,
        sender=sender,
    )


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
