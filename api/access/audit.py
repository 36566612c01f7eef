"""A request's part in the audit log: a route that changes something takes `audit: Audit` and tells
it of the change in the transaction that makes it.

    async def delete_thing(thing_id: ..., audit: Audit, ...) -> None:
        async with context.database.write() as connection:
            ...
            await audit.record(connection, deleted(thing))

A test asks every writing operation of the OpenAPI document for its entry. Emitting events is not
audited: events have rows of their own, which say who they are for and are never changed.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncConnection

from api.access.authentication import Principal
from api.access.client_address import client_address
from api.answers.request_id import request_id
from api.process.context import Context
from hookfast.audit import PORTAL, Actor, Change
from hookfast.storage.audit import audit_log


class RequestAudit:
    """Logs what one request changes. `actor` is the caller."""

    __slots__ = ("_context", "actor")

    def __init__(self, context: Context, actor: Actor) -> None:
        self._context = context
        self.actor = actor

    async def record(self, connection: AsyncConnection, change: Change | None) -> None:
        """Log a change that the connection's transaction makes; None is no change, and is not."""
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
"""A route's parameter: where it logs what it changes."""
