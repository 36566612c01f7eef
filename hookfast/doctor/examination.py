"""Runs every check at once. Each has its own time and its own failures: a database that is away
hides nothing about the mail server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from hookfast.clock import Clock, utc_now
from hookfast.doctor.database import look as look_at_database
from hookfast.doctor.disk import look as look_at_disk
from hookfast.doctor.exposure import look as look_at_settings
from hookfast.doctor.finding import Finding, fail
from hookfast.doctor.keys import look as look_at_keys
from hookfast.doctor.mail import look as look_at_mail
from hookfast.doctor.temporal import look as look_at_temporal
from hookfast.errors import HookfastError
from hookfast.settings.settings import Settings

SECONDS = 10.0
"""How long one check may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A part to look at. `todo` is for when it does not answer in time."""

    name: str
    look: Callable[[Settings, Clock], AsyncIterator[Finding]]
    todo: str
    seconds: float = SECONDS


CHECKS: tuple[Check, ...] = (
    Check(
        name="settings",
        look=look_at_settings,
        todo="Look at what HOOKFAST_HOME and the secret files are mounted from.",
    ),
    Check(
        name="disk",
        look=look_at_disk,
        todo="The file system of HOOKFAST_HOME hangs: look at what it is mounted from.",
    ),
    Check(
        name="database",
        look=look_at_database,
        todo="Something swallows the connection: look at firewalls, security groups and the host "
        "and port of HOOKFAST_DATABASE_URL.",
    ),
    Check(
        name="keys",
        look=look_at_keys,
        todo="The database does not answer; see `database`.",
        seconds=3 * SECONDS,
    ),
    Check(
        name="temporal",
        look=look_at_temporal,
        todo="Something swallows the connection: look at firewalls and at TEMPORAL_ADDRESS.",
    ),
    Check(
        name="mail",
        look=look_at_mail,
        todo="Something swallows the connection: many networks let nothing out on port 25; use 587 "
        "or 465.",
    ),
)


async def examine(
    settings: Settings, *, clock: Clock = utc_now, checks: tuple[Check, ...] = CHECKS
) -> list[Finding]:
    """What every check found, in the order of `checks`. Takes as long as the slowest, and never
    longer than its time."""
    found = await asyncio.gather(*(_run(check, settings, clock) for check in checks))
    return [finding for findings in found for finding in findings]


async def _run(check: Check, settings: Settings, clock: Clock) -> list[Finding]:
    findings: list[Finding] = []
    looking = cast("Any", check.look(settings, clock))  # an async generator, which can be closed
    try:
        async with asyncio.timeout(check.seconds), aclosing(looking):
            async for finding in looking:
                findings.append(finding)
    except TimeoutError:
        findings.append(
            fail(check.name, f"No answer within {check.seconds:g} seconds.", todo=check.todo)
        )
    except HookfastError as error:
        findings.append(fail(check.name, error.message, todo="Change what it names."))
    except Exception as error:
        # A check that breaks is a fault of ours, and must not hide what the others found. Not its
        # text: that of a driver may hold a URL with a password.
        findings.append(
            fail(
                check.name,
                f"The check itself broke ({type(error).__name__}).",
                todo="Please report this; the other checks stand.",
            )
        )
    return findings
