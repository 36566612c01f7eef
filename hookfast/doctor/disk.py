"""Can the home folder be written, and is there room? SQLite, the key file, the embedded Temporal
and mail without a server are there."""

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


async def look(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """The home folder. In a thread: a network file system that is away hangs."""
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
        yield ok("disk", "Nothing is kept on this machine.")
        return
    yield await asyncio.to_thread(_look, settings.home.absolute(), ", ".join(uses))


def _look(home: Path, uses: str) -> Finding:
    if not home.exists():
        return warn(
            "disk",
            f"{home} is not there yet. It is for: {uses}.",
            todo="The first start makes it. If that was long ago, HOOKFAST_HOME names another "
            "folder than it did.",
        )
    try:
        # really: permission bits say nothing of read-only mounts and quotas
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
        return fail("disk", saw, todo="Free some, now: a full disk refuses every event.")
    if free < _ENOUGH:
        return warn("disk", saw, todo="Free some, or shorten what is kept (HOOKFAST_…_RETENTION).")
    return ok("disk", saw)
