"""The service's RSA keys: made at first need, sealed, rotated, and shown in the key directory.

A new key is in the directory for a while before it signs, so that receivers that keep a copy know
it by then; an old one stays for as long as what it signed may arrive.
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
    """The key that signs now, still sealed."""

    kid: str
    sealed: str

    def opened(self, keyring: Keyring) -> RsaSigner:
        """Raises Misconfigured when it cannot be opened."""
        return rsa_signer(keyring.open(self.sealed, context=sealing_context(self.kid)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What a rotation did: `retired` are the ids of the older keys still in the directory."""

    kid: str
    signs_from: datetime
    retired: tuple[str, ...]
    retired_at: datetime


def sealing_context(kid: str) -> str:
    """What a key's private part is sealed for."""
    return f"signing key {kid}"


async def public_keys(connection: AsyncConnection, *, now: datetime) -> list[Jwk]:
    """The keys in the directory, newest first."""
    rows = await connection.execute(
        select(_K.public).where(_listed(now)).order_by(_K.created_at.desc(), _K.kid)
    )
    return list(rows.scalars())


async def current(connection: AsyncConnection, *, now: datetime) -> SealedSigner | None:
    """The newest key that may sign; None before there is any."""
    row = (
        await connection.execute(
            select(_K.kid, _K.sealed)
            .where(_listed(now), _K.signs_from <= now)
            .order_by(_K.signs_from.desc(), _K.kid)
            .limit(1)
        )
    ).first()
    return None if row is None else SealedSigner(kid=row.kid, sealed=row.sealed)


async def ensure(
    database: Database, keyring: Keyring, *, clock: Clock, actor: Actor = SYSTEM
) -> None:
    """Make the first key, unless there is one. Any number of processes may call it at once. The
    audit log says that `actor` made it."""
    async with database.read() as connection:
        if await current(connection, now=clock()) is not None:
            return
    pem = await asyncio.to_thread(generate_rsa)  # not with the table locked: it takes a while
    async with database.write() as connection:
        await _lock(connection)
        now = clock()
        if await current(connection, now=now) is None:
            first = await _add(connection, pem, keyring, now=now, signs_from=now)
            await audit_log.record(connection, created(first), actor=actor, now=now)


async def rotate(
    database: Database,
    keyring: Keyring,
    *,
    announce: timedelta,
    overlap: timedelta,
    clock: Clock,
    actor: Actor = CLI,
) -> Rotation:
    """Make a new key that signs after `announce`, and take the older ones out of the directory
    `overlap` later. Keys that are out of it already are deleted. The audit log says that `actor`
    rotated it."""
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
        await audit_log.record(connection, rotated, actor=actor, now=now)
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
    """Make this transaction the only one that makes keys, to its end. SQLite's write transactions
    are alone already."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("LOCK TABLE signing_keys IN SHARE ROW EXCLUSIVE MODE"))


def _listed(now: datetime) -> ColumnElement[bool]:
    return or_(_K.retired_at.is_(None), _K.retired_at > now)
