"""Runs every check at once. Each has its own time limit and errors, so that a database that does
not answer hides nothing about the mail server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from hookfast.clock import Clock, utc_now
from hookfast.doctor.database import check_database
from hookfast.doctor.disk import check_disk
from hookfast.doctor.egress_proxy import check_egress_proxy
from hookfast.doctor.exposure import check_settings
from hookfast.doctor.finding import Finding, fail
from hookfast.doctor.keys import check_keys
from hookfast.doctor.mail import check_mail
from hookfast.doctor.temporal import check_temporal
from hookfast.errors import HookfastError
from hookfast.settings.settings import Settings

SECONDS = 10.0
"""Time limit of a check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A part of the installation to check. `todo` is the advice when it does not answer in time."""

    name: str
    run: Callable[[Settings, Clock], AsyncIterator[Finding]]
    todo: str
    seconds: float = SECONDS


CHECKS: tuple[Check, ...] = (
    Check(
        name="settings",
        run=check_settings,
        todo="Check the file systems of HOOKFAST_HOME and of the secret files.",
    ),
    Check(
        name="disk",
        run=check_disk,
        todo="The file system of HOOKFAST_HOME does not respond: check where it is mounted from.",
    ),
    Check(
        name="database",
        run=check_database,
        todo="The connection gets no reply: check firewalls, security groups and the host and port "
        "of HOOKFAST_DATABASE_URL.",
    ),
    Check(
        name="keys",
        run=check_keys,
        todo="The database does not answer; see `database`.",
        seconds=3 * SECONDS,
    ),
    Check(
        name="temporal",
        run=check_temporal,
        todo="The connection gets no reply: check firewalls and TEMPORAL_ADDRESS.",
    ),
    Check(
        name="mail",
        run=check_mail,
        todo="The connection gets no reply: many networks block outgoing port 25; use 587 or 465.",
    ),
    Check(
        name="egress_proxy",
        run=check_egress_proxy,
        todo="The proxy takes the connection and does not answer: check its log.",
    ),
)


async def examine(
    settings: Settings, *, clock: Clock = utc_now, checks: tuple[Check, ...] = CHECKS
) -> list[Finding]:
    """Return the findings of every check, in the order of `checks`. Takes as long as the slowest
    check, and at most its time limit."""
    results = await asyncio.gather(*(_run(check, settings, clock) for check in checks))
    return [finding for findings in results for finding in findings]


async def _run(check: Check, settings: Settings, clock: Clock) -> list[Finding]:
    findings: list[Finding] = []
    running = cast("Any", check.run(settings, clock))  # an async generator, which can be closed
    try:
        async with asyncio.timeout(check.seconds), aclosing(running):
            async for finding in running:
                findings.append(finding)
    except TimeoutError:
        findings.append(
            fail(check.name, f"No answer within {check.seconds:g} seconds.", todo=check.todo)
        )
    except HookfastError as error:
        findings.append(fail(check.name, error.message, todo="Correct what it names."))
    except Exception as error:
        # A bug in a check must not hide what the others found. Without the error's text: a driver's
        # may have a URL with a password.
        findings.append(
            fail(
                check.name,
                f"The check itself failed ({type(error).__name__}).",
                todo="Please report this; the other checks are not affected.",
            )
        )
    return findings
