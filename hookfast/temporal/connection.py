"""The connection to Temporal, and the search attributes that are registered there once."""

from __future__ import annotations

import asyncio
import os
import re
from datetime import timedelta
from typing import Any, cast

import structlog
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import GrpcCompression, RPCError, RPCStatusCode

from hookfast.deliveries.search_attributes import SEARCH_ATTRIBUTES
from hookfast.outage_log import TEMPORAL
from hookfast.settings.secret_files import read_for
from hookfast.settings.types import TemporalCompression
from hookfast.temporal.availability import connect_failure_in_words, failure_in_words
from hookfast.temporal.compression import compression_for
from hookfast.temporal.payloads import DATA_CONVERTER

CLOSED_WORKFLOWS_KEPT = timedelta(days=4)
"""The retention that a namespace gets. Our rows are the record; a closed workflow is only a trace
in the Temporal UI, which costs 33 KB of PostgreSQL's disk. Longer than any preset retry plan, so
that while an outage lasts the UI has all of it. A workflow that runs is kept in any case."""

_UNDECODED = re.compile("[\udc80-\udcff]")  # bytes that were not UTF-8
_RECONNECT_SECONDS = 1.0
_CONNECT_SECONDS = 10.0

log = structlog.get_logger()


async def connect(
    compression: TemporalCompression, *, lazy: bool = False, address: str = "127.0.0.1:7233"
) -> Client:
    """Connect to the Temporal that `TEMPORAL_*` names, else to namespace `default` at `address`.
    The key may be in a file (`TEMPORAL_API_KEY_FILE`). Raises Misconfigured if that is unusable.

    `lazy` connects at the first call, so that a process can start while Temporal is away.
    """
    # envconfig takes UTF-8 only, and a folder in another variable may have other bytes
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("TEMPORAL_") or not _UNDECODED.search(value)
    }
    if (key := read_for("TEMPORAL_API_KEY", environment)) is not None:
        environment["TEMPORAL_API_KEY"] = key
    config = ClientConfig.load_client_connect_config(override_env_vars=environment)
    config.setdefault("target_host", address)
    return await Client.connect(
        **config,
        lazy=lazy,
        grpc_compression=await compression_for(config["target_host"], compression),
        data_converter=DATA_CONVERTER,
    )


async def connect_when_up(compression: TemporalCompression, stop: asyncio.Event) -> Client | None:
    """Connect and register the search attributes as soon as Temporal answers. None if `stop` is
    set first."""
    stopping = asyncio.create_task(stop.wait())
    try:
        while not stop.is_set():
            client, failure = await _try_to_connect(compression, stopping)
            if failure is None:
                return client
            TEMPORAL.observe(failure)
            await asyncio.wait([stopping], timeout=_RECONNECT_SECONDS)
    finally:
        stopping.cancel()
    return None


async def _try_to_connect(
    compression: TemporalCompression, stopping: asyncio.Task[Any]
) -> tuple[Client | None, str | None]:
    """Return a connected client, or why there is none; neither if `stopping` has ended. A silent
    server does not delay that."""

    async def try_it() -> Client:
        client = await connect(compression)
        try:
            await register_search_attributes(client)
        except RPCError as error:
            raise RuntimeError(failure_in_words(error, namespace=client.namespace)) from error
        return client

    trying = asyncio.create_task(try_it())
    await asyncio.wait(
        [trying, stopping], timeout=_CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    if not trying.done():
        trying.cancel()
        return None, None if stopping.done() else "it does not answer"
    try:
        return trying.result(), None
    except RuntimeError as error:
        return None, str(error) if error.__cause__ else connect_failure_in_words(error)


async def connect_embedded(address: str, *, namespace: str) -> Client:
    """Connect to the Temporal of an `up` on this machine. `TEMPORAL_*` and profiles, which may name
    another server, are ignored."""
    return await Client.connect(
        address,
        namespace=namespace,
        grpc_compression=GrpcCompression.NONE,
        data_converter=DATA_CONVERTER,
    )


async def register_search_attributes(client: Client) -> None:
    """Register the search attributes in the namespace. Any number of processes may call this."""
    service = client.operator_service
    listed = await service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    missing = {
        key.name: cast(IndexedValueType.ValueType, key.indexed_value_type.value)
        for key in SEARCH_ATTRIBUTES
        if key.name not in listed.custom_attributes
    }
    if not missing:
        return
    try:
        await service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=client.namespace,
                search_attributes=missing,
            )
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
    log.info("Search attributes registered with Temporal.", names=list(missing))
