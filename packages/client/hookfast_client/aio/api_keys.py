"""Creates and revokes API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.call import path

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import CreatedKey, Key, ListOperatorKeysQuery, NewOperatorKey


class AsyncApiKeys:
    """The operator's API keys; those of a tenant are created by `tenants.create_api_key`."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    async def create(self, **form: Unpack[NewOperatorKey]) -> CreatedKey:
        """Create an operator's key. The answer has the `key`, which is not shown again. Not
        repeated when its answer is lost."""
        return cast("CreatedKey", await self._client.fetch(call.post("/api-keys", form)))

    def list(self, **query: Unpack[ListOperatorKeysQuery]) -> AsyncPages[Key]:
        """List the operator's keys, newest first."""
        return AsyncPages(self._client, "/api-keys", query)

    async def revoke(self, key_id: str) -> None:
        """Revoke a key, of the operator or of a tenant."""
        await self._client.send(call.delete(path("api-keys", key_id)))
