"""Lists, read page by page as they are iterated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hookfast_client import call

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A page of a list. `next_cursor` is the `cursor` of the next one, None on the last page."""

    data: list[Item]
    next_cursor: str | None


class AsyncPages(Generic[Item]):
    """A list. Iterate over it for its items, which are read from the API page by page, or over
    `pages()`. The query's `limit` is the size of a page, and its `cursor` where to begin."""

    def __init__(self, client: AsyncHookfast, path: str, query: Mapping[str, Any]) -> None:
        self._client = client
        self._path = path
        self._query = query

    async def __aiter__(self) -> AsyncIterator[Item]:
        async for page in self.pages():
            for item in page.data:
                yield item

    async def pages(self) -> AsyncIterator[Page[Item]]:
        """Yield the pages."""
        query = {"limit": 200, **self._query}
        while True:
            answer = await self._client.send(call.get(self._path, query))
            page: Page[Item] = Page(answer.value["data"], answer.value["next_cursor"])
            yield page
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor
