"""Rekeying: seals every secret with the newest encryption key, while everything runs.

Rows are locked, in small batches, only while they are resealed, so no concurrent change is lost. A
crash leaves complete rows, each sealed with one key or the other; the next run continues with the
remaining ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Row, Table, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.audit import CLI, Change, differences
from hookfast.clock import Clock, utc_now
from hookfast.endpoints import secrets as endpoint_secrets
from hookfast.endpoints.credentials import reseal_credentials, sealed_credentials
from hookfast.errors import Misconfigured
from hookfast.signing.keyring import Keyring
from hookfast.storage.audit import audit_log
from hookfast.storage.database.engine import Database
from hookfast.storage.keys import signing_keys
from hookfast.storage.tables import Endpoint, SigningKey, Source

_BATCH = 50
_PAUSE_SECONDS = 0.005  # lets the other writers of a SQLite file in between
_MAX_PASSES = 20
_MAX_NAMED = 5

Progress = Callable[[int, int], None]
"""Called with the number of rows that were read, and of all rows."""


class SealedTable(Protocol):
    """A table with sealed values, listed in `SEALED_TABLES`."""

    table: Table

    def sealed(self, row: Row[Any]) -> Iterator[tuple[str, str]]:
        """Yield the context of each secret, and its sealed text."""

    def resealed(self, row: Row[Any], keyring: Keyring) -> dict[str, Any]:
        """Return the row's columns with all secrets sealed by the newest key."""


class _Endpoints:
    table: Table = Endpoint.__table__

    def sealed(self, row: Row[Any]) -> Iterator[tuple[str, str]]:
        yield from endpoint_secrets.sealed_texts(row.secrets, row.headers, endpoint_id=row.id)
        yield from sealed_credentials(row.credentials, endpoint_id=row.id)

    def resealed(self, row: Row[Any], keyring: Keyring) -> dict[str, Any]:
        secrets, headers = endpoint_secrets.reseal(
            row.secrets, row.headers, keyring, endpoint_id=row.id
        )
        credentials = reseal_credentials(row.credentials, keyring, endpoint_id=row.id)
        return {"secrets": secrets, "headers": headers, "credentials": credentials}


class _Sources:
    table: Table = Source.__table__

    def sealed(self, row: Row[Any]) -> Iterator[tuple[str, str]]:
        return endpoint_secrets.sealed_texts(row.secrets, {}, endpoint_id=row.id)

    def resealed(self, row: Row[Any], keyring: Keyring) -> dict[str, Any]:
        secrets, _ = endpoint_secrets.reseal(row.secrets, {}, keyring, endpoint_id=row.id)
        return {"secrets": secrets}


class _SigningKeys:
    table: Table = SigningKey.__table__

    def sealed(self, row: Row[Any]) -> Iterator[tuple[str, str]]:
        yield signing_keys.sealing_context(row.kid), row.sealed

    def resealed(self, row: Row[Any], keyring: Keyring) -> dict[str, Any]:
        context = signing_keys.sealing_context(row.kid)
        return {"sealed": keyring.reseal(row.sealed, context=context)}


SEALED_TABLES: tuple[SealedTable, ...] = (_Endpoints(), _Sources(), _SigningKeys())
"""All tables with sealed values."""


@dataclass(slots=True)
class Survey:
    """Counts of sealed values: all, and those that an older key than the newest sealed. `unopened`
    are the contexts of values that no key opens, and the ids of damaged rows."""

    rows: int = 0
    values: int = 0
    older: int = 0
    unopened: list[str] = field(default_factory=list)


async def survey(
    database: Database, keyring: Keyring, *, progress: Progress = lambda *_: None
) -> Survey:
    """Count the sealed values without changing any. Opens those that an older key sealed."""
    result = Survey()
    total = await _count(database)
    for sealed_table in SEALED_TABLES:
        after: str | None = None
        while True:
            async with database.read() as connection:
                rows = await _batch(connection, sealed_table, after=after, lock=False)
            if not rows:
                break
            for row in rows:
                _survey_row(sealed_table, row, keyring, result)
            after = rows[-1][0]
            progress(result.rows, max(total, result.rows))
            await asyncio.sleep(0)
    return result


async def rekey(
    database: Database,
    keyring: Keyring,
    *,
    progress: Progress = lambda *_: None,
    clock: Clock = utc_now,
) -> int:
    """Seal all secrets with the newest key, and return how many values were resealed. The audit log
    gets one entry, in the first transaction that reseals any, so that it also has a rekey that is
    interrupted.

    Raises Misconfigured, before anything is changed, when there are values that no key opens.
    """
    surveyed = await survey(database, keyring)
    if surveyed.unopened:
        raise unopened_error(surveyed.unopened)
    done = 0
    for _ in range(_MAX_PASSES):
        if not surveyed.older:
            break
        change = None if done else _rekeyed(surveyed.older)
        done += await _pass(database, keyring, progress=progress, change=change, clock=clock)
        # Locked rows were skipped, and some rows may have been sealed meanwhile by a process that
        # does not have the newest key yet.
        surveyed = await survey(database, keyring)
    return done


def unopened_error(contexts: Sequence[str]) -> Misconfigured:
    """Return the error for values that no key opens, which names the first five."""
    named = ", ".join(contexts[:_MAX_NAMED])
    more = len(contexts) - _MAX_NAMED
    return Misconfigured(
        f"no key in HOOKFAST_ENCRYPTION_KEYS opens {named}"
        + (f" and {more:,} more" if more > 0 else "")
        + "; nothing was changed. Append the key they were sealed with to the list and run this "
        "again, or set new secrets first."
    )


def _rekeyed(values: int) -> Change:
    return Change(
        action="secrets.rekey",
        resource="secrets",
        resource_id="secrets",
        tenant_id=None,
        changes=differences({}, {"values": values}),
    )


async def _pass(
    database: Database,
    keyring: Keyring,
    *,
    progress: Progress,
    change: Change | None,
    clock: Clock,
) -> int:
    """Reseal all rows that are not locked, log `change` with the first, and return how many values
    were resealed."""
    total = await _count(database)
    done = seen = 0
    for sealed_table in SEALED_TABLES:
        key = _key(sealed_table)
        after: str | None = None
        while True:
            async with database.write() as connection:
                rows = await _batch(connection, sealed_table, after=after, lock=True)
                for row in rows:
                    texts = [text for _, text in sealed_table.sealed(row)]
                    left = sum(text is None or not keyring.is_current(text) for text in texts)
                    if left:
                        await connection.execute(
                            update(sealed_table.table)
                            .where(key == row[0])
                            .values(sealed_table.resealed(row, keyring))
                        )
                        if change is not None and not done:
                            await audit_log.record(connection, change, actor=CLI, now=clock())
                    done += left
            if not rows:
                break
            after = rows[-1][0]
            seen += len(rows)
            progress(seen, max(total, seen))
            await asyncio.sleep(_PAUSE_SECONDS)
    return done


def _survey_row(sealed_table: SealedTable, row: Row[Any], keyring: Keyring, result: Survey) -> None:
    result.rows += 1
    try:
        sealed = list(sealed_table.sealed(row))
    except (AttributeError, KeyError, TypeError, ValueError):
        result.values += 1
        result.unopened.append(f"{row[0]} (damaged)")
        return
    for context, text in sealed:
        result.values += 1
        if not keyring.is_current(text):
            result.older += 1
            try:
                keyring.open(text, context=context)
            except Misconfigured:
                result.unopened.append(context)


async def _batch(
    connection: AsyncConnection, sealed_table: SealedTable, *, after: str | None, lock: bool
) -> Sequence[Row[Any]]:
    """Return the next rows by key, with the key as first column. `lock` skips rows that others have
    locked: waiting for several could deadlock with a transaction that locks them in another
    order."""
    key = _key(sealed_table)
    others = [column for column in sealed_table.table.c if column is not key]
    statement = select(key, *others).order_by(key).limit(_BATCH)
    if after is not None:
        statement = statement.where(key > after)
    if lock:
        statement = statement.with_for_update(skip_locked=True)
    return (await connection.execute(statement)).all()


async def _count(database: Database) -> int:
    async with database.read() as connection:
        counts = [
            await connection.scalar(select(func.count()).select_from(sealed_table.table))
            for sealed_table in SEALED_TABLES
        ]
    return sum(count or 0 for count in counts)


def _key(sealed_table: SealedTable) -> Any:
    [key] = sealed_table.table.primary_key.columns
    return key
