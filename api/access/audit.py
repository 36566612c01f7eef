"""Audit logging for routes. A route that changes something takes the parameter `audit: Audit` and
records the change in the transaction that makes it.

    async def delete_thing(thing_id: ..., audit: Audit, ...) -> None:
        async with context.database.write() as connection:
            ...
            await audit.record(connection, deleted(thing))

A test checks that every writing operation of the OpenAPI document has an audit entry. Emitting
events is not audited: events have rows of their own, which name their tenant and never change.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal
from api.access.client_address import client_address
from api.answers.request_id import request_id
from api.context.context import Context
from hookfast.audit import PORTAL, Actor, Change
from hookfast.storage.audit import audit_log


class RequestAudit:
    """Writes the changes that one request makes to the audit log. `actor` is the caller."""

    __slots__ = ("_context", "actor")

    def __init__(self, context: Context, actor: Actor) -> None:
        self._context = context
        self.actor = actor

    async def record(self, connection: AsyncConnection, change: Change | None) -> None:
        """Log a change as part of the connection's transaction. None means that nothing changed,
        and logs nothing."""
        if change is not None:
            now = self._context.clock()
            await audit_log.record(connection, change, actor=self.actor, now=now)


async def _audit(request: Request) -> RequestAudit:
    principal: Principal = request.state.principal
    actor = Actor(
        kind=PORTAL if principal.by_link else principal.scope,
        key_id=principal.key_id,
        request_id=request_id(request),
        client_address=client_address(request),
    )
    return RequestAudit(request.app.state.context, actor)


Audit = Annotated[RequestAudit, Depends(_audit)]
"""The route parameter through which a route logs its changes."""
