"""Checks that the home folder is writable and has free space. It is for SQLite, the key file, the
embedded Temporal, and mail when there is no mail server."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from hookfast.clock import Clock
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.settings.settings import Settings

_MEBI = 1024 * 1024
_ENOUGH = 1024 * _MEBI
_TOO_LITTLE = 100 * _MEBI


async def check_disk(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Check the home folder, in a thread because an unreachable network file system blocks."""
    uses = [
        what
        for what, there in (
            ("the database", settings.database_url is None),
            ("the encryption key", settings.encryption_keys is None),
            ("the embedded Temporal", not os.environ.get("TEMPORAL_ADDRESS")),
            ("mail", settings.smtp_url is None),
        )
        if there
    ]
    if not uses:
        yield ok("disk", "Nothing is stored on this machine.")
        return
    yield await asyncio.to_thread(_check, settings.home.absolute(), ", ".join(uses))


def _check(home: Path, uses: str) -> Finding:
    if not home.exists():
        return warn(
            "disk",
            f"{home} does not exist yet. It is for: {uses}.",
            todo="The first start creates it. If Hookfast has run before, HOOKFAST_HOME named "
            "another folder then.",
        )
    try:
        # writes a file, because permission bits say nothing about read-only mounts and quotas
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"\0")
            file.flush()
    except OSError as error:
        return fail(
            "disk",
            f"{home} cannot be written ({error.strerror or type(error).__name__}). It is for: "
            f"{uses}.",
            todo="Make the folder writable for the user that runs Hookfast, or set HOOKFAST_HOME.",
        )
    free = shutil.disk_usage(home).free
    saw = f"{home} has {free // _MEBI:,} MiB free. It is for: {uses}."
    if free < _TOO_LITTLE:
        return fail("disk", saw, todo="Free space now: with a full disk no event is accepted.")
    if free < _ENOUGH:
        return warn("disk", saw, todo="Free space, or shorten retention (HOOKFAST_…_RETENTION).")
    return ok("disk", saw)
