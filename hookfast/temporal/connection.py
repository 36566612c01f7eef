"""The connection to Temporal: where it is, and what has to be registered there once."""

from __future__ import annotations

import os
from typing import Any, cast

import structlog
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.envconfig import ClientConfig
from temporalio.service import GrpcCompression, RPCError, RPCStatusCode

from hookfast.settings.secret_files import chosen
from hookfast.temporal.payloads import DATA_CONVERTER

HOOK_TENANT = SearchAttributeKey.for_keyword("HookTenant")
HOOK_ENDPOINT = SearchAttributeKey.for_keyword("HookEndpoint")
HOOK_EVENT_TYPE = SearchAttributeKey.for_keyword("HookEventType")
HOOK_STATE = SearchAttributeKey.for_keyword("HookState")
HOOK_DELIVERIES = SearchAttributeKey.for_keyword_list("HookDeliveries")
"""Of a batch: the last 12 characters of each of its deliveries' ids."""
SEARCH_ATTRIBUTES: tuple[SearchAttributeKey[Any], ...] = (
    HOOK_TENANT,
    HOOK_ENDPOINT,
    HOOK_EVENT_TYPE,
    HOOK_STATE,
    HOOK_DELIVERIES,
)

log = structlog.get_logger()


def kind_of(key: SearchAttributeKey[Any]) -> str:
    """Its type, as Temporal's own CLI names it: `Keyword` or `KeywordList`."""
    return key.indexed_value_type.name.title().replace("_", "")


async def connect(*, lazy: bool = False, address: str = "127.0.0.1:7233") -> Client:
    """A client for the Temporal that `TEMPORAL_*` names (else the one at `address`, `default`), its
    key also by a file (`TEMPORAL_API_KEY_FILE`). Raises Misconfigured where that cannot be used.

    `lazy` connects at the first call, so that a process can start while Temporal is away.
    """
    environment = dict(os.environ)
    if (key := chosen("TEMPORAL_API_KEY", environment)) is not None:
        environment["TEMPORAL_API_KEY"] = key
    config = ClientConfig.load_client_connect_config(override_env_vars=environment)
    config.setdefault("target_host", address)
    # gzip costs more than the bytes it saves on loopback
    near = config["target_host"].startswith(("127.", "localhost:", "[::1]"))
    compression = GrpcCompression.NONE if near else GrpcCompression.GZIP
    return await Client.connect(
        **config, lazy=lazy, grpc_compression=compression, data_converter=DATA_CONVERTER
    )


async def connect_embedded(address: str, *, namespace: str) -> Client:
    """A client for the Temporal of an `up` on this machine, without what `TEMPORAL_*` and a profile
    say of another server."""
    return await Client.connect(
        address,
        namespace=namespace,
        grpc_compression=GrpcCompression.NONE,
        data_converter=DATA_CONVERTER,
    )


async def register_search_attributes(client: Client) -> None:
    """Make the search attributes known to the namespace. Any number of processes may try."""
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
