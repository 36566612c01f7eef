"""Checks that the encryption keys open the stored secrets, and that the operator key is strong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from itertools import pairwise

from sqlalchemy.exc import SQLAlchemyError

from hookfast.clock import Clock
from hookfast.doctor.database import open_existing
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.errors import Misconfigured
from hookfast.plural import are, pluralize
from hookfast.settings.settings import Settings
from hookfast.signing.keyring import Keyring
from hookfast.storage.accounts import api_keys
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import is_current
from hookfast.storage.keys.keyring import KEY_FILE, keyring_of
from hookfast.storage.keys.rekey import Survey, survey

_SURVEY_SECONDS = 20.0
_NAMED = 3
_FEWEST_CHARACTERS = 10
"""Least number of different characters in a strong key: 32 random hexadecimal digits have fewer
once in a thousand keys."""


async def check_keys(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Check the encryption keys, whether they open the stored secrets, and the operator key."""
    if settings.encryption_keys is None and _is_shared_database(settings):
        file = settings.home / KEY_FILE
        yield warn(
            "keys.encryption",
            f"The key is the file {file.absolute()}: a process on another machine creates its own "
            "key, and cannot open what this one seals.",
            todo="Set HOOKFAST_ENCRYPTION_KEYS to the content of that file on every machine "
            "(HOOKFAST_ENCRYPTION_KEYS_FILE names a mounted secret).",
        )
    if settings.operator_key is not None:
        yield _check_strength(settings.operator_key.get_secret_value())
    try:
        keyring = await asyncio.to_thread(_keyring, settings)
    except Misconfigured as error:
        todo = "Correct it; until then no delivery can be signed."
        yield fail("keys.encryption", error.message, todo=todo)
        return
    database, _ = open_existing(settings)
    if database is None:
        return  # the check `database` says why
    async with database:
        try:
            if not await is_current(database):
                return  # the check `database.schema` says why
            yield await _check_stored(database, keyring)
            yield await _check_operator_key(database, settings, clock)
        except SQLAlchemyError:
            return  # the check `database` says why


def _is_shared_database(settings: Settings) -> bool:
    """Whether processes on other machines may use the database too."""
    return not settings.resolved_database_url.startswith("sqlite")


def _keyring(settings: Settings) -> Keyring | None:
    """Return the keys in force; None if the key file does not exist yet. Raises Misconfigured."""
    if settings.encryption_keys is None and not (settings.home / KEY_FILE).exists():
        return None
    return keyring_of(settings)


async def _check_stored(database: Database, keyring: Keyring | None) -> Finding:
    """Check that the keys open the sealed values in the database."""
    if keyring is None:
        # with any key, the survey finds out whether there are sealed values
        found = await survey(database, Keyring([bytes(32)]))
        if found.values:
            return fail(
                "keys.encryption",
                f"There is no key, and {found.values:,} sealed values are stored.",
                todo="Restore the key file from a backup, or set HOOKFAST_ENCRYPTION_KEYS. Do not "
                "start Hookfast before: it would create a new key, which opens none of them.",
            )
        return ok("keys.encryption", "Nothing is sealed yet; the first start creates the key.")
    checked = 0

    def progress(seen: int, total: int) -> None:
        nonlocal checked
        checked = seen

    try:
        async with asyncio.timeout(_SURVEY_SECONDS):
            found = await survey(database, keyring, progress=progress)
    except TimeoutError:
        saw = f"The keys open the first {checked:,} rows; the rest was not checked in time."
        return ok("keys.encryption", saw)
    return _check_survey(found)


def _check_survey(found: Survey) -> Finding:
    if found.unopened:
        named = ", ".join(found.unopened[:_NAMED])
        more = len(found.unopened) - _NAMED
        return fail(
            "keys.encryption",
            f"No key opens {len(found.unopened):,} of {found.values:,} sealed values: {named}"
            + (f" and {more:,} more." if more > 0 else "."),
            todo="Append the key that sealed them to HOOKFAST_ENCRYPTION_KEYS, or give them new "
            "secrets (rotate-secret).",
        )
    if found.older:
        return ok(
            "keys.encryption",
            f"All {found.values:,} sealed values open, {found.older:,} with an older key: keep it "
            "until `hookfast secrets rekey` has run.",
        )
    return ok("keys.encryption", f"All {found.values:,} sealed values are under the newest key.")


def _check_strength(key: str) -> Finding:
    body = key.removeprefix("hf_")
    steps = [abs(ord(one) - ord(next_)) for one, next_ in pairwise(body)]
    runs = sum(step <= 1 for step in steps)  # aaaa, 1234, abcd
    if len(set(body)) < _FEWEST_CHARACTERS or runs > len(body) / 2.5:
        return warn(
            "keys.operator",
            "HOOKFAST_OPERATOR_KEY does not look random, and it allows everything.",
            todo="Generate one with `echo hf_$(openssl rand -hex 32)`, restart with it, and revoke "
            "the old one (`hookfast keys`).",
        )
    return ok("keys.operator", "HOOKFAST_OPERATOR_KEY looks random.")


async def _check_operator_key(database: Database, settings: Settings, clock: Clock) -> Finding:
    """Check that an operator key is stored, and the configured one is not revoked."""
    configured = settings.operator_key
    async with database.read() as connection:
        count = await api_keys.count_operator_keys(connection, at=clock())
        stored = None
        if configured is not None:
            digest = sha256(configured.get_secret_value().encode()).hexdigest()
            stored = await api_keys.by_hash(connection, digest)
    if configured is None and count == 0:
        return fail(
            "keys.operator",
            "There is no valid operator key.",
            todo="Run `hookfast migrate`: it creates one and prints it, or stores "
            "HOOKFAST_OPERATOR_KEY.",
        )
    if configured is not None and (stored is None or stored.revoked_at is not None):
        what = "is not stored yet" if stored is None else "was revoked"
        return fail(
            "keys.operator",
            f"HOOKFAST_OPERATOR_KEY {what}.",
            todo="Run `hookfast migrate` to store it."
            if stored is None
            else "Set another one; nothing starts with this one.",
        )
    return ok("keys.operator", f"{pluralize(count, 'operator key')} {are(count)} valid.")
