"""Reading the audit log from the database, without the API."""

from __future__ import annotations

from typing import Any

from api.context.context import Context
from hookfast.storage.audit import audit_log
from hookfast.storage.audit.audit_log import AuditFilter
from hookfast.storage.tables import AuditEntry


async def entries(context: Context, **chosen: Any) -> list[AuditEntry]:
    """Return the newest entries that match, newest first."""
    async with context.database.read() as connection:
        return await audit_log.list_page(connection, AuditFilter(**chosen), after=None, limit=100)
