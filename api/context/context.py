"""The shared parts that request handlers use: opened once per process, closed with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from temporalio.client import Client

from api.context.flushing import flushing
from api.context.gauges import REFRESH_SECONDS, DatabaseGauges
from api.context.inbound_rejections import FLUSH_SECONDS, InboundRejections
from api.context.key_cache import RECORD_SECONDS, KeyCache
from api.context.source_cache import SourceCache
from api.context.temporal_retention import TemporalRetention
from api.limits.backlog import Backlog
from api.limits.failure_limit import FailureLimit
from api.limits.key_rate import KeyRate
from api.limits.receiver_checks import ReceiverCheckLimit
from api.limits.turns import Turns
from api.stream.hub import StreamHub
from api.stream.slots import StreamSlots
from hookfast.byte_budget import ByteBudget
from hookfast.clock import Clock, utc_now
from hookfast.dispatch.workflow_starter import WorkflowStarter, stopped, workflow_starter_for
from hookfast.process import new_process_id
from hookfast.sender import Sender, sender_of
from hookfast.settings.settings import Settings
from hookfast.signing.keyring import Keyring
from hookfast.slots import Slots
from hookfast.storage.counting import folding
from hookfast.storage.database.doorbell import Doorbell, doorbell_for
from hookfast.storage.database.engine import Database
from hookfast.storage.database.server_clock import using_server_clock
from hookfast.storage.database.watch import watching as watching_database
from hookfast.storage.emitting.emit import Emitter
from hookfast.storage.emitting.event_quotas import EventQuotas
from hookfast.storage.events.catalogue import EventCatalogue
from hookfast.storage.figures.write_check import WriteCheck
from hookfast.storage.inbox.inbox import Inbox
from hookfast.storage.inbox.loop_reports import LoopReports
from hookfast.storage.keys.keyring import keyring_of
from hookfast.telemetry import providers
from hookfast.telemetry.providers import Telemetry
from hookfast.temporal import connection
from hookfast.temporal.availability import watching as watching_temporal


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts of a running API process."""

    settings: Settings
    database: Database
    write_check: WriteCheck
    keyring: Keyring
    sender: Sender
    workflow_starter: WorkflowStarter
    catalogue: EventCatalogue
    emitter: Emitter
    temporal: Client
    temporal_retention: TemporalRetention
    doorbell: Doorbell
    keys: KeyCache
    key_rate: KeyRate | None
    failures: FailureLimit
    receiver_checks: ReceiverCheckLimit
    event_quotas: EventQuotas
    inbox: Inbox
    sources: SourceCache
    rejections: InboundRejections
    loop_reports: LoopReports
    inbound_slots: Slots
    turns: Turns
    bodies: ByteBudget
    parsed_bodies: ByteBudget
    backlog: Backlog
    streams: StreamHub
    stream_slots: StreamSlots
    telemetry: Telemetry
    gauges: DatabaseGauges
    clock: Clock


@asynccontextmanager
async def open_context(
    settings: Settings, *, clock: Clock = utc_now, watch: bool = False
) -> AsyncIterator[Context]:
    """Open all parts, and close them in reverse order. Temporal may be away: its client connects
    when it is first used."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(settings.resolved_database_url))
        await stack.enter_async_context(using_server_clock(database))
        write_check = WriteCheck(database, process_id=new_process_id(), clock=clock)
        stack.push_async_callback(write_check.close)
        keys = KeyCache(database, clock=clock)
        await stack.enter_async_context(
            flushing(keys.record_use, seconds=RECORD_SECONDS, name="record-key-use")
        )
        doorbell = doorbell_for(database)
        stack.push_async_callback(doorbell.close)
        client = await connection.connect(settings.temporal_compression, lazy=True)
        if watch:
            await stack.enter_async_context(watching_temporal(client))
            await stack.enter_async_context(watching_database(database))
        temporal_retention = TemporalRetention(client)
        await stack.enter_async_context(temporal_retention.reading())
        sender = sender_of(settings, clock=clock)
        stack.push_async_callback(sender.aclose)
        workflow_starter = workflow_starter_for(settings, client, database, clock=clock)
        # Workers start workflows too; this only saves people the seconds until a worker does.
        starting = asyncio.create_task(workflow_starter.run_when_woken(), name="workflow_starter")
        stack.push_async_callback(stopped, starting)
        adding_up = asyncio.create_task(folding.fold_forever(database), name="figures")
        stack.push_async_callback(stopped, adding_up)
        keyring = keyring_of(settings)
        rejections = InboundRejections(database, clock=clock)
        await stack.enter_async_context(
            flushing(rejections.write, seconds=FLUSH_SECONDS, name="write-rejections")
        )
        event_quotas = EventQuotas(settings.quotas)
        inbox = Inbox(database, doorbell, quotas=event_quotas, clock=clock)
        stack.push_async_callback(inbox.close)
        catalogue = EventCatalogue()
        emitter = Emitter(database, doorbell, quotas=event_quotas, catalogue=catalogue, clock=clock)
        stack.push_async_callback(emitter.close)
        backlog = Backlog(database, limit=settings.max_backlog)
        await stack.enter_async_context(backlog.counting())
        streams = StreamHub(database, doorbell, clock=clock)
        stack.push_async_callback(streams.close)
        telemetry = providers.start("api", by_tenant=settings.metrics_by_tenant)
        gauges = DatabaseGauges(database, settings, clock=clock)
        if telemetry.pushes_metrics:
            await stack.enter_async_context(
                flushing(gauges.refresh, seconds=REFRESH_SECONDS, name="database-gauges")
            )
        yield Context(
            settings=settings,
            database=database,
            write_check=write_check,
            keyring=keyring,
            sender=sender,
            workflow_starter=workflow_starter,
            catalogue=catalogue,
            emitter=emitter,
            temporal=client,
            temporal_retention=temporal_retention,
            doorbell=doorbell,
            keys=keys,
            key_rate=KeyRate(per_second=settings.key_rate_per_second, burst=settings.key_rate_burst)
            if settings.key_rate_per_second
            else None,
            failures=FailureLimit(per_minute=settings.auth_failures_per_minute),
            receiver_checks=ReceiverCheckLimit(per_minute=settings.test_sends_per_minute),
            event_quotas=event_quotas,
            inbox=inbox,
            sources=SourceCache(database, keyring, clock=clock),
            rejections=rejections,
            loop_reports=LoopReports(database, doorbell, clock=clock),
            inbound_slots=Slots(settings.max_inbox_requests, most=settings.max_inbox_requests // 2),
            turns=Turns(),
            bodies=ByteBudget(
                settings.max_body_memory,
                largest=max(
                    settings.max_batch_bytes, settings.max_event_bytes, settings.max_inbox_bytes
                ),
            ),
            parsed_bodies=ByteBudget(
                4 * settings.max_body_memory, largest=2 * settings.max_body_memory
            ),
            backlog=backlog,
            streams=streams,
            stream_slots=StreamSlots(settings.max_streams),
            telemetry=telemetry,
            gauges=gauges,
            clock=clock,
        )


async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


AppContext = Annotated[Context, Depends(_context)]
"""The route parameter with the process's shared parts."""
