"""Re-sealing: every sealed value under the newest encryption key, while everything runs.

Rows are locked, in small batches, for as long as it takes to seal them: nothing that changes them
meanwhile is lost. A crash leaves whole rows behind, each under one key or the other; the next run
goes on with those that are left.
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
"""Called with how many rows were looked at, and how many there are."""


class Vault(Protocol):
    """A table with sealed values: one line in `VAULTS` for each."""

    table: Table

    def sealed(self, row: Row[Any]) -> Iterator[tuple[str, str | None]]:
        """Each sealed text with its context; None for a value that is still to be sealed."""

    def resealed(self, row: Row[Any], keyring: Keyring) -> dict[str, Any]:
        """The columns of the row with everything under the newest key."""


class _Endpoints:
    table: Table = Endpoint.__table__

    def sealed(self, row: Row[Any]) -> Iterator[tuple[str, str | None]]:
        return endpoint_secrets.sealed_texts(row.secrets, row.headers, endpoint_id=row.id)

    def resealed(self, row: Row[Any], keyring: Keyring) -> dict[str, Any]:
        secrets, headers = endpoint_secrets.resealed(
            row.secrets, row.headers, keyring, endpoint_id=row.id
        )
        return {"secrets": secrets, "headers": headers}


class _Sources:
    table: Table = Source.__table__

    def sealed(self, row: Row[Any]) -> Iterator[tuple[str, str | None]]:
        return endpoint_secrets.sealed_texts(row.secrets, {}, endpoint_id=row.id)

    def resealed(self, row: Row[Any], keyring: Keyring) -> dict[str, Any]:
        secrets, _ = endpoint_secrets.resealed(row.secrets, {}, keyring, endpoint_id=row.id)
        return {"secrets": secrets}


class _SigningKeys:
    table: Table = SigningKey.__table__

    def sealed(self, row: Row[Any]) -> Iterator[tuple[str, str | None]]:
        yield signing_keys.sealing_context(row.kid), row.sealed

    def resealed(self, row: Row[Any], keyring: Keyring) -> dict[str, Any]:
        context = signing_keys.sealing_context(row.kid)
        return {"sealed": keyring.reseal(row.sealed, context=context)}


VAULTS: tuple[Vault, ...] = (_Endpoints(), _Sources(), _SigningKeys())
"""Everything that is sealed in the database."""


@dataclass(slots=True)
class Survey:
    """What is sealed, and with what. `unopened` are the contexts of values no key opens."""

    rows: int = 0
    values: int = 0
    older: int = 0
    plain: int = 0
    unopened: list[str] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Values that are not sealed by the newest key."""
        return self.older + self.plain


async def survey(
    database: Database, keyring: Keyring, *, progress: Progress = lambda *_: None
) -> Survey:
    """Look at every sealed value, and change none. Opens those an older key sealed."""
    found = Survey()
    total = await _count(database)
    for vault in VAULTS:
        after: str | None = None
        while True:
            async with database.read() as connection:
                rows = await _batch(connection, vault, after=after, lock=False)
            if not rows:
                break
            for row in rows:
                _look(vault, row, keyring, found)
            after = rows[-1][0]
            progress(found.rows, max(total, found.rows))
            await asyncio.sleep(0)
    return found


async def rekey(
    database: Database,
    keyring: Keyring,
    *,
    progress: Progress = lambda *_: None,
    clock: Clock = utc_now,
) -> int:
    """Seal everything with the newest key; returns how many values were sealed anew. The audit log
    says so once, in the first transaction that seals any: one that stops is in it too.

    Raises Misconfigured, before anything is changed, when there are values no key opens.
    """
    found = await survey(database, keyring)
    if found.unopened:
        raise unopened(found.unopened)
    done = 0
    for _ in range(_MAX_PASSES):
        if not found.left:
            break
        begins = None if done else _rekeyed(found.left)
        done += await _pass(database, keyring, progress=progress, begins=begins, clock=clock)
        # Rows that were locked were passed over, and some may have been sealed by a process that
        # does not have the newest key yet.
        found = await survey(database, keyring)
    return done


def unopened(contexts: Sequence[str]) -> Misconfigured:
    """The refusal that names values no key opens."""
    named = ", ".join(contexts[:_MAX_NAMED])
    more = len(contexts) - _MAX_NAMED
    return Misconfigured(
        f"no key in HOOKFAST_ENCRYPTION_KEYS opens {named}"
        + (f" and {more:,} more" if more > 0 else "")
        + "; nothing was changed. Append the key they were sealed with to the list and run it "
        "again, or give them new secrets first."
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
    begins: Change | None,
    clock: Clock,
) -> int:
    total = await _count(database)
    done = seen = 0
    for vault in VAULTS:
        key = _key(vault)
        after: str | None = None
        while True:
            async with database.write() as connection:
                rows = await _batch(connection, vault, after=after, lock=True)
                for row in rows:
                    left = sum(not _is_current(text, keyring) for _, text in vault.sealed(row))
                    if left:
                        await connection.execute(
                            update(vault.table)
                            .where(key == row[0])
                            .values(vault.resealed(row, keyring))
                        )
                        if begins is not None and not done:
                            await audit_log.record(connection, begins, actor=CLI, now=clock())
                    done += left
            if not rows:
                break
            after = rows[-1][0]
            seen += len(rows)
            progress(seen, max(total, seen))
            await asyncio.sleep(_PAUSE_SECONDS)
    return done


def _look(vault: Vault, row: Row[Any], keyring: Keyring, found: Survey) -> None:
    found.rows += 1
    for context, text in vault.sealed(row):
        found.values += 1
        if text is None:
            found.plain += 1
        elif not keyring.is_current(text):
            found.older += 1
            try:
                keyring.open(text, context=context)
            except Misconfigured:
                found.unopened.append(context)


def _is_current(text: str | None, keyring: Keyring) -> bool:
    return text is not None and keyring.is_current(text)


async def _batch(
    connection: AsyncConnection, vault: Vault, *, after: str | None, lock: bool
) -> Sequence[Row[Any]]:
    """The next rows by key, the key first. Locked ones are those nobody else has locked: waiting
    for more than one at a time could end in a deadlock with who locks them in another order."""
    key = _key(vault)
    others = [column for column in vault.table.c if column is not key]
    statement = select(key, *others).order_by(key).limit(_BATCH)
    if after is not None:
        statement = statement.where(key > after)
    if lock:
        statement = statement.with_for_update(skip_locked=True)
    return (await connection.execute(statement)).all()


async def _count(database: Database) -> int:
    async with database.read() as connection:
        counts = [
            await connection.scalar(select(func.count()).select_from(vault.table))
            for vault in VAULTS
        ]
    return sum(count or 0 for count in counts)


def _key(vault: Vault) -> Any:
    [key] = vault.table.primary_key.columns
    return key
