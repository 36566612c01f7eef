"""Statements on `dashboard_sent_forms`: a form does its work once. Its primary key decides between
two that come at the same time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, Table, and_, delete, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.tables import SentForm

_FORMS: Table = SentForm.__table__
_F = _FORMS.c
_KEY: Final = (_F.session_sha256, _F.token, _F.path)
_SWEPT_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FormKey:
    """Which form it is: of which session, with which token, sent to which path."""

    session_sha256: str
    token: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What is known of a form that was sent before; see `SentForm`."""

    sent_at: datetime
    led_to: str | None
    shown_once: bool


async def claim(
    connection: AsyncConnection, key: FormKey, *, now: datetime, lifetime: timedelta
) -> Sent | None:
    """Note that the form was sent; None: for the first time, and the caller does its work.
    Otherwise what is known of the first time. Removes some of those that no session of `lifetime`
    can send again."""
    over = (
        select(*_KEY)
        .where(_F.sent_at <= now - lifetime)
        .order_by(_F.sent_at)
        .limit(_SWEPT_AT_ONCE)
        # what another request is removing is no reason to wait
        .with_for_update(skip_locked=True)
    )
    await connection.execute(delete(_FORMS).where(tuple_(*_KEY).in_(over)))
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    first = (
        dialect.insert(_FORMS)
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
        if known is not None:  # None: it was freed just now
            return known
    return None


async def find(connection: AsyncConnection, key: FormKey) -> Sent | None:
    """What is known of a form; None: it was not sent, or was refused."""
    rows = await connection.execute(select(_F.sent_at, _F.led_to, _F.shown_once).where(_is(key)))
    row = rows.mappings().first()
    return None if row is None else Sent(**row)


async def settle(
    connection: AsyncConnection, key: FormKey, *, led_to: str, shown_once: bool
) -> None:
    """Note which page shows what came of it."""
    await connection.execute(
        update(_FORMS).where(_is(key)).values(led_to=led_to, shown_once=shown_once)
    )


async def free(connection: AsyncConnection, key: FormKey) -> None:
    """Forget a form that was refused: nothing came of it, and it may be sent again."""
    await connection.execute(delete(_FORMS).where(_is(key)))


def _is(key: FormKey) -> ColumnElement[bool]:
    return and_(_F.session_sha256 == key.session_sha256, _F.token == key.token, _F.path == key.path)
