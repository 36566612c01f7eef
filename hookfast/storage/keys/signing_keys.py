"""The service's RSA keys: created when first needed, sealed, rotated, and listed in the directory.

A new key is in the key directory for a while before it signs, so that receivers with a cached copy
know it by then; an old key stays for as long as messages that it signed may arrive.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Table, delete, insert, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.audit import CLI, SYSTEM, Actor
from hookfast.clock import Clock
from hookfast.signing.keyring import Keyring
from hookfast.signing.keys import Jwk, RsaSigner, generate_rsa, rsa_jwk, rsa_signer
from hookfast.storage.audit import audit_log
from hookfast.storage.audit.audited import created, done
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import SigningKey

_KEYS: Table = SigningKey.__table__
_K = _KEYS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSigner:
    """The key that signs now, with its private part still sealed."""

    kid: str
    sealed: str

    def open(self, keyring: Keyring) -> RsaSigner:
        """Open the private part. Raises Misconfigured when no key of the keyring opens it."""
        return rsa_signer(keyring.open(self.sealed, context=sealing_context(self.kid)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The result of a rotation. `retired` has the ids of the older keys still in the directory."""

    kid: str
    signs_from: datetime
    retired: tuple[str, ...]
    retired_at: datetime


def sealing_context(kid: str) -> str:
    """Return the context with which a key's private part is sealed."""
    return f"signing key {kid}"


async def public_keys(connection: AsyncConnection, *, now: datetime) -> list[Jwk]:
    """Return the public keys in the directory, newest first."""
    rows = await connection.execute(
        select(_K.public).where(_listed(now)).order_by(_K.created_at.desc(), _K.kid)
    )
    return list(rows.scalars())


async def current_signer(connection: AsyncConnection, *, now: datetime) -> SealedSigner | None:
    """Return the newest key that may sign; None if there is no key yet."""
    row = (
        await connection.execute(
            select(_K.kid, _K.sealed)
            .where(_listed(now), _K.signs_from <= now)
            .order_by(_K.signs_from.desc(), _K.kid)
            .limit(1)
        )
    ).first()
    return None if row is None else SealedSigner(kid=row.kid, sealed=row.sealed)


async def ensure_key(
    database: Database, keyring: Keyring, *, clock: Clock, actor: Actor = SYSTEM
) -> None:
    """Create the first key, unless there is one. Any number of processes may call it at once. The
    audit log names `actor` as its creator."""
    async with database.read() as connection:
        if await current_signer(connection, now=clock()) is not None:
            return
    pem = await asyncio.to_thread(generate_rsa)  # slow, so before the table is locked
    async with database.write() as connection:
        await _lock(connection)
        now = clock()
        if await current_signer(connection, now=now) is None:
            first = await _add(connection, pem, keyring, now=now, signs_from=now)
            await audit_log.record(connection, created(first), actor=actor, now=now)


async def rotate(
    database: Database,
    keyring: Keyring,
    *,
    announce: timedelta,
    overlap: timedelta,
    clock: Clock,
) -> Rotation:
    """Create a key that signs after `announce`, and remove the older keys from the directory
    `overlap` later. Keys that are no longer listed are deleted. The audit log names the CLI."""
    pem = await asyncio.to_thread(generate_rsa)
    async with database.write() as connection:
        await _lock(connection)
        now = clock()
        signs_from = now + announce
        retired_at = signs_from + overlap
        await connection.execute(delete(_KEYS).where(_K.retired_at <= now))
        await connection.execute(
            update(_KEYS)
            .where(or_(_K.retired_at.is_(None), _K.retired_at > retired_at))
            .values(retired_at=retired_at)
        )
        retired = await connection.execute(select(_K.kid).where(_listed(now)).order_by(_K.kid))
        kids = tuple(retired.scalars())
        new = await _add(connection, pem, keyring, now=now, signs_from=signs_from)
        facts = {"signs_from": signs_from, "retired": kids, "retired_at": retired_at}
        rotated = done("signing_key.rotate", new, after=facts)
        await audit_log.record(connection, rotated, actor=CLI, now=now)
    return Rotation(kid=new.kid, signs_from=signs_from, retired=kids, retired_at=retired_at)


async def _add(
    connection: AsyncConnection, pem: str, keyring: Keyring, *, now: datetime, signs_from: datetime
) -> SigningKey:
    public = rsa_jwk(rsa_signer(pem).key)
    kid = public["kid"]
    key = SigningKey(
        kid=kid,
        kind="rsa",
        public=public,
        sealed=keyring.seal(pem, context=sealing_context(kid)),
        created_at=now,
        signs_from=signs_from,
    )
    await connection.execute(insert(_KEYS).values(key.model_dump()))
    return key


async def _lock(connection: AsyncConnection) -> None:
    """Keep other transactions from adding keys until this one ends. SQLite's write transactions
    exclude each other anyway."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("LOCK TABLE signing_keys IN SHARE ROW EXCLUSIVE MODE"))


def _listed(now: datetime) -> ColumnElement[bool]:
    return or_(_K.retired_at.is_(None), _K.retired_at > now)
