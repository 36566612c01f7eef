"""Statements on `dashboard_sessions`. A session ends when it expires, when it is removed, or when
the right behind it ends (`Grant`); `find` never returns an ended session.

Sessions are limited, so that nobody fills the table: the oldest of a link, of a key and of a tenant
end when there are more. A link may have a tenth of its tenant's, so that one that is opened again
and again ends its own sessions, and not those of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.owners.notice import owner_hash
from hookfast.storage.tables import ApiKey, DashboardSession, Endpoint, Tenant

MOST_OF_LINK: Final = 100
"""Live sessions that were begun with one portal link: more browsers than one link is meant for."""
MOST_OF_KEY: Final = 1_000
"""Live sessions that were begun with one API key, which a whole team may share for twelve hours."""
MOST_OF_TENANT: Final = 1_000
"""Live sessions of one tenant, whatever they were begun with."""

LINK, MAIL = "link", "mail"

_SESSIONS: Table = DashboardSession.__table__
_S = _SESSIONS.c
_K = ApiKey.__table__.c
_T = Tenant.__table__.c
_E = Endpoint.__table__.c

_DELETED_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The right to a session, which may end before the session does: with its key (`key_id`; of a
    mail, when `owner` is none of the endpoint's owners any more), its tenant or its endpoint. The
    names are those of `DashboardSession`'s columns."""

    key_id: str
    scope: str
    tenant_id: str | None
    begun_with: str
    via: str | None = None
    endpoint_id: str | None = None

    @property
    def most(self) -> int:
        """The limit of live sessions that are begun with the same."""
        return MOST_OF_KEY if self.via is None else MOST_OF_LINK


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSession:
    """A session that has not ended, with the name and look of the tenant that it views, if any."""

    token_sha256: str
    key_id: str
    key_name: str | None
    scope: str
    tenant_id: str | None
    chosen_tenant_id: str | None
    tenant_name: str | None
    tenant_portal: dict[str, str] | None
    expires_at: datetime
    via: str | None
    endpoint_id: str | None


def key_id_of_owner(owner: str) -> str:
    """Return the `key_id` of the sessions that are begun with links in mail to the owner with this
    hash (`owner_hash`)."""
    return f"{MAIL}:{owner}"


async def add(
    connection: AsyncConnection,
    grant: Grant,
    *,
    token_sha256: str,
    now: datetime,
    expires_at: datetime,
    replaces: str | None = None,
) -> bool:
    """Add a session in place of `replaces`, another session's token (SHA-256), and return whether
    it was added: not if its right has ended. Deletes up to 100 of the oldest sessions beyond each
    limit, and of the expired ones."""
    await _lock(connection, grant)
    if not await holds(connection, grant, now=now):
        return False
    if replaces is not None:
        await remove(connection, replaces)
    await _delete(connection, _expired(now=now))
    await _delete(connection, _oldest(_S.begun_with == grant.begun_with, most=grant.most, now=now))
    if grant.tenant_id is not None:
        of_tenant = _S.tenant_id == grant.tenant_id
        await _delete(connection, _oldest(of_tenant, most=MOST_OF_TENANT, now=now))
    row = {"token_sha256": token_sha256, "created_at": now, "expires_at": expires_at}
    await connection.execute(insert(_SESSIONS).values(asdict(grant) | row))
    return True


async def holds(connection: AsyncConnection, grant: Grant, *, now: datetime) -> bool:
    """Return whether the right has not ended, so that a session may begin."""
    given = [literal(value, _S[name].type).label(name) for name, value in asdict(grant).items()]
    nothing = literal(None, _S.chosen_tenant_id.type).label("chosen_tenant_id")
    source = select(*given, nothing).subquery("given")
    rows = await connection.execute(_granted(source.c, [_T.id], now=now))
    return _unless_former_owner(rows.mappings()) is not None


async def find(
    connection: AsyncConnection, token_sha256: str, *, now: datetime
) -> LiveSession | None:
    """Return the session with this token, unless it or its right has ended."""
    columns = [
        *(_S.token_sha256, _S.scope, _S.tenant_id, _S.expires_at),
        _K.name.label("key_name"),
        _T.id.label("viewed_tenant_id"),
        _T.name.label("tenant_name"),
        _T.portal.label("tenant_portal"),
    ]
    rows = await connection.execute(
        _granted(_S, columns, now=now).where(_S.token_sha256 == token_sha256, _S.expires_at > now)
    )
    row = _unless_former_owner(rows.mappings())
    if row is None:
        return None
    viewed = row.pop("viewed_tenant_id")
    return LiveSession(**row, chosen_tenant_id=None if row["tenant_id"] else viewed)


async def choose_tenant(
    connection: AsyncConnection, token_sha256: str, tenant_id: str | None
) -> None:
    """Set the tenant that the session views; None: all tenants."""
    await connection.execute(
        update(_SESSIONS).where(_S.token_sha256 == token_sha256).values(chosen_tenant_id=tenant_id)
    )


async def remove(connection: AsyncConnection, token_sha256: str) -> None:
    """Delete a session."""
    await connection.execute(delete(_SESSIONS).where(_S.token_sha256 == token_sha256))


def _granted(granted: Any, columns: Iterable[Any], *, now: datetime) -> Select[Any]:
    """Select the given columns, and those of `_unless_former_owner`, of sessions whose right has
    not ended, apart from that. `granted` has the columns of sessions."""
    source = granted.key_id.table
    return (
        select(*columns, granted.key_id, granted.via, granted.endpoint_id, _E.owner_emails)
        .join_from(source, ApiKey.__table__, granted.key_id == _K.id, isouter=True)
        .join(
            Tenant.__table__,
            (_T.id == func.coalesce(granted.tenant_id, granted.chosen_tenant_id))
            & _T.deleted_at.is_(None),
            isouter=True,
        )
        .join(
            Endpoint.__table__,
            (_E.id == granted.endpoint_id)
            & (_E.tenant_id == granted.tenant_id)
            & _E.deleted_at.is_(None),
            isouter=True,
        )
        .where(
            or_(granted.tenant_id.is_(None), _T.id.is_not(None)),
            or_(granted.endpoint_id.is_(None), _E.id.is_not(None)),
            or_(
                and_(granted.via == MAIL, _E.id.is_not(None)),
                and_(
                    _K.revoked_at.is_(None),
                    or_(_K.expires_at.is_(None), _K.expires_at > now),
                    _may_grant(granted),
                ),
            ),
        )
    )


def _may_grant(granted: Any) -> ColumnElement[bool]:
    """Whether the key may do all that the session may. Without a key it may nothing."""
    reads = and_(_K.scope == "tenant", granted.scope == "tenant:read")
    of_tenant = and_(_K.tenant_id == granted.tenant_id, or_(_K.scope == granted.scope, reads))
    return or_(_K.scope == "operator", of_tenant)


def _unless_former_owner(rows: Iterable[Any]) -> dict[str, Any] | None:
    """Return the row, if there is one, unless it is of a mail to somebody who is no owner of the
    endpoint any more."""
    for row in rows:
        columns = dict(row)
        owners = columns.pop("owner_emails") or ()
        if row["via"] == MAIL and row["key_id"] not in map(_key_id_of_address, owners):
            return None
        return columns
    return None


def _key_id_of_address(address: str) -> str:
    return key_id_of_owner(owner_hash(address))


async def _lock(connection: AsyncConnection, grant: Grant) -> None:
    """Let sessions of the same tenant, or operators' of the same key, begin one after another, so
    that the limits are exact. SQLite's write transactions do anyway."""
    row = _T.id == grant.tenant_id if grant.tenant_id is not None else _K.id == grant.key_id
    await connection.execute(select(literal(1)).where(row).with_for_update())


def _expired(*, now: datetime) -> Select[Any]:
    return (
        select(_S.token_sha256)
        .where(_S.expires_at <= now)
        .order_by(_S.expires_at)
        .limit(_DELETED_AT_ONCE)
        # do not wait for rows that another request is deleting
        .with_for_update(skip_locked=True)
    )


def _oldest(of: ColumnElement[bool], *, most: int, now: datetime) -> Select[Any]:
    """Select the live sessions that must end before one more begins."""
    return (
        select(_S.token_sha256)
        .where(of, _S.expires_at > now)
        .order_by(_S.created_at.desc(), _S.token_sha256.desc())
        .offset(most - 1)
        .limit(_DELETED_AT_ONCE)
    )


async def _delete(connection: AsyncConnection, tokens: Select[Any]) -> None:
    await connection.execute(delete(_SESSIONS).where(_S.token_sha256.in_(tokens)))
