"""New API keys, and the first operator key of an installation."""

from __future__ import annotations

import secrets

from hookfast.audit import CLI
from hookfast.clock import Clock
from hookfast.errors import Misconfigured
from hookfast.ids import new_id
from hookfast.settings.settings import Settings
from hookfast.storage.accounts import api_keys
from hookfast.storage.accounts.api_keys import Scope, key_hash
from hookfast.storage.audit import audit_log
from hookfast.storage.audit.audited import created
from hookfast.storage.database.engine import Database
from hookfast.storage.tables import ApiKey


def new_key() -> str:
    """Return a new API key with 256 random bits."""
    return f"hf_{secrets.token_urlsafe(32)}"


def key_record(key: str, *, scope: Scope, tenant_id: str | None, name: str, clock: Clock) -> ApiKey:
    """Return the row to store for a key: its hash, and its first characters as a hint for
    people."""
    now = clock()
    return ApiKey(
        id=new_id("key", now),
        tenant_id=tenant_id,
        scope=scope,
        name=name,
        hint=f"{key[:7]}…",
        key_sha256=key_hash(key),
        created_at=now,
    )


async def ensure_operator_key(
    database: Database, settings: Settings, *, clock: Clock
) -> str | None:
    """Make sure that an operator key exists: HOOKFAST_OPERATOR_KEY if it is set, otherwise any.

    Returns the key if one was generated here, which is the only time that it can be shown; None if
    one existed or the setting gave it. Any number of processes may call this at once. Raises
    Misconfigured if the key in the setting was revoked.
    """
    configured = settings.operator_key
    async with database.write() as connection:
        await api_keys.lock_operator_keys(connection)
        if configured is not None:
            key = configured.get_secret_value()
        elif await api_keys.count_operator_keys(connection, at=clock()) == 0:
            key = new_key()
        else:
            return None
        record = key_record(key, scope="operator", tenant_id=None, name="operator", clock=clock)
        if await api_keys.add_if_missing(connection, record):
            await audit_log.record(connection, created(record), actor=CLI, now=record.created_at)
        else:
            stored = await api_keys.by_hash(connection, record.key_sha256)
            if stored is None or stored.revoked_at is not None or stored.scope != "operator":
                raise Misconfigured("HOOKFAST_OPERATOR_KEY was revoked; set another key")
    return key if configured is None else None
