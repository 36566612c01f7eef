"""Keyset pagination: a page is "the next `limit` rows after this key", at the same cost for every
page.

A list route takes `page: PageQuery`, reads `page.rows` rows after `page.after` (one more than the
limit, to know whether there is a next page), and returns `page.listing(...)`:

    @routes.get("/things", ...)
    async def list_things(page: PageQuery, ...) -> Listing[ThingView]:
        async with context.database.read() as connection:
            rows = await things.list_page(connection, after=page.after, limit=page.rows)
        return page.listing(rows, ThingView.of)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field

from api.http.fields import WholeNumber
from hookfast.errors import InvalidInput

MAX_LIMIT = 200
DEFAULT_LIMIT = 50

Row = TypeVar("Row")
View = TypeVar("View")


class Listing(BaseModel, Generic[View]):
    """One page of a list."""

    data: list[View]
    next_cursor: str | None = Field(
        description="The `cursor` of the next page; null on the last page."
    )


@dataclass(frozen=True, slots=True)
class Page:
    """The requested page of a list: at most `limit` rows, after the key `after`. Its cursors
    contain `list_id`, so that other lists reject them."""

    limit: int
    after: str | None
    list_id: str = ""

    @property
    def rows(self) -> int:
        """The number of rows to read: one more than the limit, to know whether a page follows."""
        return self.limit + 1

    def cursor(self, key: str) -> str:
        """Return the cursor of the page after this key."""
        return _encode(self.list_id, key)

    def listing(
        self, rows: Sequence[Row], view: Callable[[Row], View], *, key: str = "id"
    ) -> Listing[View]:
        """Return the page of these ordered rows. `view` returns a row's view; `key` is the name of
        the attribute by which they are ordered."""
        shown = rows[: self.limit]
        more = len(rows) > self.limit
        return Listing(
            data=[view(row) for row in shown],
            next_cursor=self.cursor(getattr(shown[-1], key)) if more else None,
        )


async def _page(
    request: Request,
    limit: Annotated[
        WholeNumber, Query(ge=1, le=MAX_LIMIT, description="Rows per page.")
    ] = DEFAULT_LIMIT,
    cursor: Annotated[
        str | None, Query(max_length=400, description="The `next_cursor` of the previous page.")
    ] = None,
) -> Page:
    list_id = _list_id(request.url.path)
    return Page(limit, None if cursor is None else _decode(list_id, cursor), list_id)


PageQuery = Annotated[Page, Depends(_page)]
"""The route parameter with the page that `limit` and `cursor` request."""


def _list_id(path: str) -> str:
    """Return eight hex digits that identify a list. They are no secret: a cursor only says where a
    page begins."""
    return hashlib.sha256(path.encode()).hexdigest()[:8]


def _encode(list_id: str, key: str) -> str:
    return base64.urlsafe_b64encode(f"{list_id}{key}".encode()).decode().rstrip("=")


def _decode(list_id: str, cursor: str) -> str:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    key = text.removeprefix(list_id)
    if key in ("", text) or not key.isprintable():
        raise InvalidInput.at(
            "cursor",
            "not a cursor of this list; pass the `next_cursor` of its previous page unchanged",
        )
    return key
