"""The row of an event, checked in the caller's code as far as that is possible: an error here rolls
the caller's transaction back, and one that only Hookfast finds is found after the commit."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hookfast_client.outbox.table import TableName

MAX_TYPE = 128
MAX_ORDERING_KEY = 256
_MAX_DEPTH = 63  # Hookfast's limit is 64, with the object that is the event
_TYPE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){0,5}")
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
        return f"INSERT INTO {self.table} ({', '.join(_COLUMNS)}) VALUES ({', '.join(values)})"


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
    current OpenTelemetry span. Raises ValueError or TypeError, which say what is wrong."""
    if not _TYPE.fullmatch(type) or len(type) > MAX_TYPE:
        raise ValueError(
            f"{type!r} is not an event type: one to six parts joined by dots, each a lower-case "
            f"letter followed by lower-case letters, digits or '_', {MAX_TYPE} characters at most, "
            "such as 'order.invoice.paid'"
        )
    if deliver_at is not None and deliver_at.utcoffset() is None:
        raise ValueError("deliver_at has no time zone; use datetime.now(timezone.utc)")
    if ordering_key is not None and not 1 <= len(ordering_key) <= MAX_ORDERING_KEY:
        raise ValueError(f"an ordering_key has 1 to {MAX_ORDERING_KEY} characters")
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
            None if deliver_at is None else deliver_at.isoformat(),
            ordering_key,
            _current_traceparent(),
        ),
    )


def json_text(data: Any) -> str:
    """Return the data as JSON that Hookfast accepts. Raises TypeError for what JSON has no form
    for, and ValueError for what Hookfast rejects: NaN and infinity, NUL, lone surrogates, keys that
    are equal as text, and nesting deeper than 63 levels."""
    _check(data, "data", depth=0)
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _check(value: Any, place: str, *, depth: int) -> None:
    if isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, dict | list | tuple):
        if depth == _MAX_DEPTH:
            raise ValueError(f"data nests deeper than {_MAX_DEPTH} levels; flatten it")
        if isinstance(value, dict):
            keys = [_key_text(key) for key in value]
            if len(set(keys)) < len(keys):
                raise ValueError(f"{place} has keys that are equal as text, such as 1 and '1'")
            for key in keys:
                _check_text(key, f"a key of {place}")
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            _check(item, f"{place}[{key!r}]", depth=depth + 1)


def _key_text(key: Any) -> str:
    """Return the text that JSON has in place of a key."""
    if isinstance(key, str):
        return key
    return json.dumps(key)


def _check_text(text: str, place: str) -> None:
    if "\0" in text:
        raise ValueError(f"{place} has a NUL character, which PostgreSQL cannot store")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{place} has half of a surrogate pair, which is not Unicode") from None


def _current_traceparent() -> str | None:
    """Return the W3C `traceparent` of the current span; None without a span or OpenTelemetry."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
