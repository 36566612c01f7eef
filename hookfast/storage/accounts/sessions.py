"""Statements on `dashboard_sessions`. A session ends when it expires, when its API key ends, or
when it is removed; `find` never returns an ended session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Table, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from hookfast.storage.tables import ApiKey, DashboardSession, Tenant

_SESSIONS: Table = DashboardSession.__table__
_S = _SESSIONS.c
_K = ApiKey.__table__.c
_T = Tenant.__table__.c

_DELETED_AT_ONCE = 100


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


async def add(connection: AsyncConnection, session: DashboardSession) -> None:
    """Add a session, and delete up to 100 expired ones."""
    expired = (
        select(_S.token_sha256)
        .where(_S.expires_at <= session.created_at)
        .order_by(_S.expires_at)
        .limit(_DELETED_AT_ONCE)
    )
    await connection.execute(delete(_SESSIONS).where(_S.token_sha256.in_(expired)))
    await connection.execute(insert(_SESSIONS).values(session.model_dump()))


async def find(
    connection: AsyncConnection, token_sha256: str, *, now: datetime
) -> LiveSession | None:
    """Return the session with this token, unless it has expired, its key was revoked or has
    expired, or its tenant was deleted."""
    rows = await connection.execute(
        select(
            _S.token_sha256,
            _S.key_id,
            _K.name.label("key_name"),
            _S.scope,
            _S.tenant_id,
            _T.id.label("viewed_tenant_id"),
            _T.name.label("tenant_name"),
            _T.portal.label("tenant_portal"),
            _S.expires_at,
            _S.via,
            _S.endpoint_id,
        )
        .join_from(_SESSIONS, ApiKey.__table__, _S.key_id == _K.id, isouter=True)
        .join(
            Tenant.__table__,
            (_T.id == func.coalesce(_S.tenant_id, _S.chosen_tenant_id)) & _T.deleted_at.is_(None),
            isouter=True,
        )
        .where(
            _S.token_sha256 == token_sha256,
            _S.expires_at > now,
            or_(_K.id.is_not(None), _S.via == "mail"),
            or_(_S.tenant_id.is_(None), _T.id.is_not(None)),
            _K.revoked_at.is_(None),
            or_(_K.expires_at.is_(None), _K.expires_at > now),
        )
    )
    row = rows.mappings().first()
    if row is None:
        return None
    columns = dict(row)
    viewed = columns.pop("viewed_tenant_id")
    return LiveSession(**columns, chosen_tenant_id=None if columns["tenant_id"] else viewed)


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
