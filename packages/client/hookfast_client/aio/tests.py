"""Lists the tests that were sent to endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.call import path

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import KeptTest, ListedTest, ListTestsQuery


class AsyncTests:
    """The tests that `endpoints.test` sent, which are kept for some days."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    def list(self, **query: Unpack[ListTestsQuery]) -> AsyncPages[ListedTest]:
        """List tests, newest first."""
        return AsyncPages(self._client, "/tests", query)

    async def get(self, test_id: str) -> KeptTest:
        """Return a test with the whole request and the answer. Raises NotFound."""
        return cast("KeptTest", await self._client.fetch(call.get(path("tests", test_id))))
