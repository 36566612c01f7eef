"""Statements on `form_once`, so that a form takes effect once. The primary key decides between two
that are sent at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, Table, and_, delete, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.database.upsert import insert_into
from hookfast.storage.tables import FormOnce

_FORMS: Table = FormOnce.__table__
_F = _FORMS.c
_KEY: Final = (_F.session_sha256, _F.token, _F.path)
_DELETED_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FormKey:
    """The key of a sent form: its session, its token, and the path it was sent to."""

    session_sha256: str
    token: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormState:
    """The state of a form that was sent before; see `FormOnce`."""

    sent_at: datetime
    led_to: str | None
    shown_once: bool


async def claim(
    connection: AsyncConnection, key: FormKey, *, now: datetime, lifetime: timedelta
) -> FormState | None:
    """Record that a form was sent. Return None the first time, when the caller processes the form,
    and otherwise the state of the first time. Also deletes up to 100 forms that are too old for any
    session of `lifetime` to send again."""
    old = (
        select(*_KEY)
        .where(_F.sent_at <= now - lifetime)
        .order_by(_F.sent_at)
        .limit(_DELETED_AT_ONCE)
        # do not wait for rows that another request is deleting
        .with_for_update(skip_locked=True)
    )
    await connection.execute(delete(_FORMS).where(tuple_(*_KEY).in_(old)))
    first = (
        insert_into(connection, _FORMS)
        .values(
            session_sha256=key.session_sha256,
            token=key.token,
            path=key.path,
            sent_at=now,
            shown_once=False,
        )
        .on_conflict_do_nothing(index_elements=list(_KEY))
        .returning(_F.token)
    )
    while (await connection.execute(first)).first() is None:
        known = await find(connection, key)
        if known is not None:  # None: it was removed just now
            return known
    return None


async def find(connection: AsyncConnection, key: FormKey) -> FormState | None:
    """Return the state of a form; None if it was not sent, or was rejected."""
    rows = await connection.execute(select(_F.sent_at, _F.led_to, _F.shown_once).where(_is(key)))
    row = rows.mappings().first()
    return None if row is None else FormState(**row)


async def set_result(
    connection: AsyncConnection, key: FormKey, *, led_to: str, shown_once: bool
) -> None:
    """Set the page that shows the form's result."""
    await connection.execute(
        update(_FORMS).where(_is(key)).values(led_to=led_to, shown_once=shown_once)
    )


async def remove(connection: AsyncConnection, key: FormKey) -> None:
    """Delete a form that was rejected without any effect, so that it may be sent again."""
    await connection.execute(delete(_FORMS).where(_is(key)))


def _is(key: FormKey) -> ColumnElement[bool]:
    return and_(_F.session_sha256 == key.session_sha256, _F.token == key.token, _F.path == key.path)
