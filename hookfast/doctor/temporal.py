"""Is Temporal there, with a namespace that keeps what we need, workers that poll, and schedules?"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    GetSystemInfoRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from hookfast.clock import Clock
from hookfast.deliveries.messages import DELIVERIES_QUEUE, RETRIES_QUEUE
from hookfast.deliveries.retry_plan import PRESETS
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.retention import ages, daily
from hookfast.settings import up_file
from hookfast.settings.settings import Settings
from hookfast.settings.up_file import UpFile
from hookfast.temporal import connection
from hookfast.workflow_request import CONTROL_QUEUE

_PLAN = timedelta(seconds=max(plan.length for plan in PRESETS.values()))
_POLLED_LATELY = timedelta(minutes=2)  # a poll waits for a minute before it is made again
_RPC = timedelta(seconds=5)
_WORKFLOW = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
_ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
_QUEUES = (
    (DELIVERIES_QUEUE, _WORKFLOW),
    (RETRIES_QUEUE, _ACTIVITY),
    (CONTROL_QUEUE, _WORKFLOW),
    (CONTROL_QUEUE, _ACTIVITY),
)
_SCHEDULES = (daily.SCHEDULE_ID, ages.SCHEDULE_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """The Temporal to look at, and how we come to it: the environment names it, the `up` on this
    home started it, or it is the one that whoever names none gets."""

    address: str
    known: Literal["named", "started", "assumed"]


_AWAY = {
    "named": "Check that it runs, and TEMPORAL_ADDRESS and TEMPORAL_TLS.",
    "started": "The `hookfast up` that runs is starting it, or starts it again: look into "
    "temporal.log in its home. Events are accepted meanwhile, and none is delivered.",
    "assumed": "Set TEMPORAL_ADDRESS; the embedded one runs only while `hookfast up` does. Events "
    "are accepted meanwhile, and none is delivered.",
}


async def look(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """The service, the namespace, search attributes, pollers and schedules."""
    running = up_file.read(settings.home)
    server = _server(settings, running)
    try:
        if server.known == "started" and running is not None:
            client = await connection.connect_embedded(
                server.address, namespace=running.temporal_namespace
            )
        else:
            client = await connection.connect(address=server.address)
        info = await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=_RPC)
    except (RPCError, RuntimeError) as error:  # a failed connect raises RuntimeError
        yield _away(error, server)
        return
    yield _there(client.service_client.config.target_host, info.server_version, server)
    kept = await _namespace(client)
    yield kept
    if kept.status == "fail":
        return  # all else is asked of the namespace
    yield await _search_attributes(client)
    for finding in await _pollers(client, clock):
        yield finding
    for schedule in _SCHEDULES:
        yield await _schedule(client, schedule)


def _server(settings: Settings, running: UpFile | None) -> _Server:
    if address := os.environ.get("TEMPORAL_ADDRESS"):
        return _Server(address=address, known="named")
    if running is not None:
        return _Server(address=running.temporal_address, known="started")
    return _Server(address=f"127.0.0.1:{settings.temporal_port or 7233}", known="assumed")


def _there(host: str, version: str, server: _Server) -> Finding:
    saw = f"Temporal {version} at {host}."
    if server.known != "assumed" or host != server.address:  # a profile named another
        return ok("temporal", saw)
    return warn(
        "temporal",
        f"{saw} Nothing says that it is ours: there is no TEMPORAL_ADDRESS, and no `hookfast up` "
        "runs on HOOKFAST_HOME.",
        todo="Set TEMPORAL_ADDRESS where it is; `hookfast up` starts one of its own.",
    )


def _away(error: Exception, server: _Server) -> Finding:
    if isinstance(error, RPCError) and error.status in (
        RPCStatusCode.UNAUTHENTICATED,
        RPCStatusCode.PERMISSION_DENIED,
    ):
        return fail(
            "temporal",
            f"Temporal at {server.address} refuses us ({error.status.name}).",
            todo="Correct TEMPORAL_API_KEY (or TEMPORAL_API_KEY_FILE), or the certificate in "
            "TEMPORAL_TLS_CLIENT_CERT_PATH.",
        )
    return fail("temporal", f"There is no Temporal at {server.address}.", todo=_AWAY[server.known])


async def _namespace(client: Client) -> Finding:
    check, name = "temporal.namespace", client.namespace
    try:
        found = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=name), timeout=_RPC
        )
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return fail(
                check,
                f"There is no namespace {name}.",
                todo=f"`temporal operator namespace create -n {name} --retention 14d`, or correct "
                "TEMPORAL_NAMESPACE.",
            )
        return _refused(check, error)
    kept = found.config.workflow_execution_retention_ttl.ToTimedelta()
    saw = f"{name} keeps closed workflows for {_days(kept)}."
    if kept < _PLAN:
        return warn(
            check,
            f"{saw} A retry plan lasts up to {_days(_PLAN)}: of deliveries that failed, the UI "
            "forgets the workflow while others of their outage still wait.",
            todo=f"`temporal operator namespace update -n {name} --retention 14d`.",
        )
    return ok(check, saw)


async def _search_attributes(client: Client) -> Finding:
    check = "temporal.search_attributes"
    try:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace), timeout=_RPC
        )
    except RPCError as error:
        return _refused(check, error)
    wanted = {key.name: key for key in connection.SEARCH_ATTRIBUTES}
    there = listed.custom_attributes
    missing = [name for name in wanted if name not in there]
    wrong = [
        f"{name} is not of the type {connection.kind_of(key)}"
        for name, key in wanted.items()
        if name in there and there[name] != key.indexed_value_type.value
    ]
    if wrong:
        return fail(
            check,
            f"{', '.join(wrong)}, so no delivery can start.",
            todo="Remove or rename them (`temporal operator search-attribute`); a worker makes "
            "them anew when it starts.",
        )
    if missing:
        return fail(
            check,
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not registered, so no "
            "delivery can start.",
            todo="A worker registers them when it starts; where it may not (Temporal Cloud), make "
            "them by hand: "
            + ", ".join(f"{name} as {connection.kind_of(wanted[name])}" for name in missing)
            + ".",
        )
    return ok(check, ", ".join(wanted) + ".")


async def _pollers(client: Client, clock: Clock) -> list[Finding]:
    silent: list[str] = []
    seen = 0
    for queue, kind in _QUEUES:
        try:
            found = await client.workflow_service.describe_task_queue(
                DescribeTaskQueueRequest(
                    namespace=client.namespace,
                    task_queue=TaskQueue(name=queue),
                    task_queue_type=kind,
                ),
                timeout=_RPC,
            )
        except RPCError as error:
            return [_refused("temporal.workers", error)]
        since = clock() - _POLLED_LATELY
        fresh = [
            poller
            for poller in found.pollers
            if poller.last_access_time.ToDatetime(since.tzinfo) > since
        ]
        seen = max(seen, len(fresh))
        if not fresh and queue not in silent:
            silent.append(queue)
    if silent:
        return [
            fail(
                "temporal.workers",
                f"No worker polls {', '.join(silent)}.",
                todo="Start one: `hookfast worker`. If one runs, it is on another namespace or "
                "Temporal: compare TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.",
            )
        ]
    return [ok("temporal.workers", f"All task queues are polled, by up to {seen} workers.")]


async def _schedule(client: Client, schedule: str) -> Finding:
    check = "temporal.schedules"
    try:
        described = await client.get_schedule_handle(schedule).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return fail(
                check,
                f"There is no schedule {schedule}.",
                todo="A worker makes it when it starts; the worker's log says what hinders it.",
            )
        return _refused(check, error)
    if described.schedule.state.paused:
        return warn(
            check,
            f"The schedule {schedule} is paused.",
            todo=f"`temporal schedule toggle --unpause --schedule-id {schedule}`.",
        )
    following = next(iter(described.info.next_action_times), None)
    if following is None:
        return warn(
            check,
            f"The schedule {schedule} has no next run.",
            todo="Look again in a minute. If it stays so, delete it (`temporal schedule delete "
            f"--schedule-id {schedule}`): a worker makes it anew when it starts.",
        )
    return ok(check, f"{schedule} runs next at {following:%Y-%m-%d %H:%M} UTC.")


def _refused(check: str, error: RPCError) -> Finding:
    return fail(
        check,
        f"Temporal does not answer that ({error.status.name}).",
        todo="Try again; if it stays so, look at Temporal's own health, and at what this key may.",
    )


def _days(span: timedelta) -> str:
    return f"{span / timedelta(days=1):.3g} days"
