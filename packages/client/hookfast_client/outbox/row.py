"""The row of an event, checked in the caller's code as far as that is possible: an error here rolls
the caller's transaction back. What only Hookfast can check is checked after the commit."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hookfast_client.json_text import encode, parse, rfc3339
from hookfast_client.outbox.table import MAX_DATA_BYTES, TableName
from hookfast_client.traceparent import current_traceparent

MAX_TYPE = 128
MAX_ORDERING_KEY = 256
_MAX_DEPTH = 63  # Hookfast's limit is 64, with the object that is the event
_TOO_DEEP = f"data nests deeper than {_MAX_DEPTH} levels; flatten it"
_TYPE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){0,5}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Every value is sent as text and cast by the server, because drivers and their settings, such as
# codecs for JSON, disagree about all other types.
_COLUMNS = {
    "key": "uuid",
    "type": "text",
    "data": "json",
    "tenant_id": "text",
    "deliver_at": "timestamptz",
    "ordering_key": "text",
    "traceparent": "text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """A row to insert. `values` are text or None, in the order of the placeholders of `sql`."""

    table: TableName
    values: Sequence[str | None]

    @property
    def key(self) -> str:
        """The event's idempotency key."""
        return str(self.values[0])

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns, in the order of the values."""
        return tuple(_COLUMNS)

    def sql(self, placeholder: Callable[[int, str], str]) -> str:
        """Return the statement; `placeholder` writes that of a column by its number, from 1, and
        name."""
        values = (
            f"CAST(CAST({placeholder(number, name)} AS text) AS {kind})"
            for number, (name, kind) in enumerate(_COLUMNS.items(), start=1)
        )
        names, texts = ", ".join(_COLUMNS), ", ".join(values)
        return f"INSERT INTO {self.table} ({names}) VALUES ({texts})"  # noqa: S608 - checked names


def create_row(
    type: str,
    data: Any,
    *,
    tenant_id: str | None,
    deliver_at: datetime | None,
    ordering_key: str | None,
    table: str,
) -> OutboxRow:
    """Check an event, and return its row with a new idempotency key and the `traceparent` of the
    current OpenTelemetry span. Raises ValueError, which says what is wrong."""
    if not _TYPE.fullmatch(type) or len(type) > MAX_TYPE:
        raise ValueError(
            f"{type!r} is not an event type: one to six parts joined by dots, each a lower-case "
            f"letter followed by lower-case letters, digits or '_', {MAX_TYPE} characters at most, "
            "such as 'order.invoice.paid'"
        )
    if ordering_key is not None and (
        not 1 <= len(ordering_key) <= MAX_ORDERING_KEY or _CONTROL.search(ordering_key)
    ):
        raise ValueError(
            f"an ordering_key has 1 to {MAX_ORDERING_KEY} characters, and no control characters"
        )
    if ordering_key is not None and deliver_at is not None:
        raise ValueError("an event with an ordering_key cannot have a deliver_at")
    for name, text in (("tenant_id", tenant_id), ("ordering_key", ordering_key)):
        if text is not None:
            _check_text(text, name)
    return OutboxRow(
        table=TableName.parse(table),
        values=(
            str(uuid.uuid4()),
            type,
            json_text(data),
            tenant_id,
            None if deliver_at is None else rfc3339(deliver_at),
            ordering_key,
            current_traceparent(),
        ),
    )


def json_text(data: Any) -> str:
    """Return the data as JSON that Hookfast accepts; bytes are JSON already. Raises ValueError for
    what is not JSON, and for what Hookfast rejects: NUL, lone surrogates, members with the same
    name, nesting deeper than 63 levels, and more than 1.5 MB."""
    encoded = data if isinstance(data, bytes) else encode(data)
    if len(encoded) > MAX_DATA_BYTES:
        raise ValueError(f"data is larger than {MAX_DATA_BYTES:,} bytes")
    try:
        value = parse(encoded)
    except ValueError as error:
        raise ValueError(f"data is not JSON that Hookfast accepts: {error}") from None
    _check(value, depth=0)
    return encoded.decode()


def _check(value: Any, *, depth: int) -> None:
    if isinstance(value, str):
        _check_text(value, "data")
    elif isinstance(value, dict | list):
        if depth == _MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
        for part in (*value, *value.values()) if isinstance(value, dict) else value:
            _check(part, depth=depth + 1)


def _check_text(text: str, place: str) -> None:
    if "\0" in text:
        raise ValueError(f"{place} has a NUL character, which PostgreSQL cannot store")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{place} has half of a surrogate pair, which is not Unicode") from None
