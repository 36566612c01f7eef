"""Checks Temporal: its namespace, search attributes, the workers that poll, and the schedules."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetSystemInfoRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from hookfast.clock import Clock
from hookfast.deliveries.retry_plan import PRESETS
from hookfast.deliveries.search_attributes import SEARCH_ATTRIBUTES, kind_of
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.doctor.pollers import check_pollers
from hookfast.doctor.worker_versions import check_worker_versions
from hookfast.plural import are
from hookfast.retention import ages, daily
from hookfast.settings import up_file
from hookfast.settings.settings import Settings
from hookfast.settings.up_file import UpFile
from hookfast.temporal import connection

_PLAN = timedelta(seconds=max(plan.length for plan in PRESETS.values()))
_RETENTION = f"{connection.CLOSED_WORKFLOWS_KEPT.days}d"
_RPC = timedelta(seconds=5)
_SCHEDULES = (daily.SCHEDULE_ID, ages.SCHEDULE_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """The Temporal to check, and how its address is known: the environment names it, the `up` on
    this home started it, or it is the default address."""

    address: str
    known: Literal["named", "started", "assumed"]


_IF_UNREACHABLE = {
    "named": "Check that it runs, and TEMPORAL_ADDRESS and TEMPORAL_TLS.",
    "started": "The running `hookfast up` is starting or restarting it: see temporal.log in its "
    "home. Until then, events are accepted and not delivered.",
    "assumed": "Set TEMPORAL_ADDRESS; the embedded one runs only while `hookfast up` does. Until "
    "then, events are accepted and not delivered.",
}


async def check_temporal(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Check the service, the namespace, search attributes, pollers and schedules."""
    running = up_file.read(settings.home)
    server = _server(settings, running)
    try:
        if server.known == "started" and running is not None:
            client = await connection.connect_embedded(
                server.address, namespace=running.temporal_namespace
            )
        else:
            client = await connection.connect(settings.temporal_compression, address=server.address)
        info = await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=_RPC)
    except (RPCError, RuntimeError) as error:  # a failed connect raises RuntimeError
        yield _unreachable(error, server)
        return
    yield _reachable(client.service_client.config.target_host, info.server_version, server)
    namespace = await _check_namespace(client)
    yield namespace
    if namespace.status == "fail":
        return  # the other checks need the namespace
    yield await _check_search_attributes(client)
    try:
        async for finding in check_pollers(client, settings, clock):
            yield finding
        async for finding in check_worker_versions(client, clock):
            yield finding
    except RPCError as error:
        yield _rpc_failed("temporal.workers", error)
    for schedule in _SCHEDULES:
        yield await _check_schedule(client, schedule)


def _server(settings: Settings, running: UpFile | None) -> _Server:
    if address := os.environ.get("TEMPORAL_ADDRESS"):
        return _Server(address=address, known="named")
    if running is not None:
        return _Server(address=running.temporal_address, known="started")
    return _Server(address=f"127.0.0.1:{settings.temporal_port or 7233}", known="assumed")


def _reachable(host: str, version: str, server: _Server) -> Finding:
    saw = f"Temporal {version} at {host}."
    if server.known != "assumed" or host != server.address:  # a profile named another
        return ok("temporal", saw)
    return warn(
        "temporal",
        f"{saw} It may belong to another service: TEMPORAL_ADDRESS is not set, and no `hookfast "
        "up` runs on HOOKFAST_HOME.",
        todo="Set TEMPORAL_ADDRESS if it is the right one; `hookfast up` starts its own.",
    )


def _unreachable(error: Exception, server: _Server) -> Finding:
    if isinstance(error, RPCError) and error.status in (
        RPCStatusCode.UNAUTHENTICATED,
        RPCStatusCode.PERMISSION_DENIED,
    ):
        return fail(
            "temporal",
            f"Temporal at {server.address} denies access ({error.status.name}).",
            todo="Correct TEMPORAL_API_KEY (or TEMPORAL_API_KEY_FILE), or the certificate in "
            "TEMPORAL_TLS_CLIENT_CERT_PATH.",
        )
    saw = f"There is no Temporal at {server.address}."
    return fail("temporal", saw, todo=_IF_UNREACHABLE[server.known])


async def _check_namespace(client: Client) -> Finding:
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
                todo=f"`temporal operator namespace create -n {name} --retention {_RETENTION}`, or "
                "correct TEMPORAL_NAMESPACE.",
            )
        return _rpc_failed(check, error)
    kept = found.config.workflow_execution_retention_ttl.ToTimedelta()
    saw = f"{name} keeps closed workflows for {_days(kept)}."
    if kept < _PLAN:
        return warn(
            check,
            f"{saw} A retry plan lasts up to {_days(_PLAN)}: the UI forgets workflows of failed "
            "deliveries while others of the same outage are still retried.",
            todo=f"`temporal operator namespace update -n {name} --retention {_RETENTION}`.",
        )
    return ok(check, saw)


async def _check_search_attributes(client: Client) -> Finding:
    check = "temporal.search_attributes"
    try:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace), timeout=_RPC
        )
    except RPCError as error:
        return _rpc_failed(check, error)
    needed = {key.name: key for key in SEARCH_ATTRIBUTES}
    registered = listed.custom_attributes
    missing = [name for name in needed if name not in registered]
    wrong = [
        f"{name} is not of the type {kind_of(key)}"
        for name, key in needed.items()
        if name in registered and registered[name] != key.indexed_value_type.value
    ]
    if wrong:
        return fail(
            check,
            f"{', '.join(wrong)}, so no delivery can start.",
            todo="Remove or rename them (`temporal operator search-attribute`); a worker registers "
            "them again when it starts.",
        )
    if missing:
        return fail(
            check,
            f"{', '.join(missing)} {are(len(missing))} not registered, so no delivery can start.",
            todo="A worker registers them when it starts; if it may not (Temporal Cloud), create "
            "them by hand: "
            + ", ".join(f"{name} as {kind_of(needed[name])}" for name in missing)
            + ".",
        )
    return ok(check, ", ".join(needed) + ".")


async def _check_schedule(client: Client, schedule: str) -> Finding:
    check = "temporal.schedules"
    try:
        described = await client.get_schedule_handle(schedule).describe(rpc_timeout=_RPC)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return fail(
                check,
                f"There is no schedule {schedule}.",
                todo="A worker creates it when it starts; the worker's log says why it could not.",
            )
        return _rpc_failed(check, error)
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
            todo="Check again in a minute. If that does not help, delete it (`temporal schedule "
            f"delete --schedule-id {schedule}`): a worker creates it again when it starts.",
        )
    return ok(check, f"{schedule} runs next at {following:%Y-%m-%d %H:%M} UTC.")


def _rpc_failed(check: str, error: RPCError) -> Finding:
    return fail(
        check,
        f"Temporal answered this check with an error ({error.status.name}).",
        todo="Try again. If that does not help, check Temporal's health and this key's "
        "permissions.",
    )


def _days(span: timedelta) -> str:
    return f"{span / timedelta(days=1):.3g} days"
