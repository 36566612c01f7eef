"""Runs every check at once. Each has its own time limit and errors, so that a database that does
not answer hides nothing about the mail server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from hookfast.clock import Clock, utc_now
from hookfast.doctor.database import check_database
from hookfast.doctor.disk import check_disk
from hookfast.doctor.egress_proxy import check_egress_proxy
from hookfast.doctor.exposure import check_settings
from hookfast.doctor.figures import check_figures
from hookfast.doctor.finding import Finding, fail
from hookfast.doctor.keys import check_keys
from hookfast.doctor.mail import check_mail
from hookfast.doctor.temporal import check_temporal
from hookfast.errors import HookfastError
from hookfast.process import run_async
from hookfast.settings.settings import Settings

SECONDS = 10.0
"""Time limit of a check."""
_CANCEL_SECONDS = 2.0
"""How long a check may take to close what it opened, past its time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A part of the installation to check. `todo` is the advice when it does not answer in time."""

    name: str
    run: Callable[[Settings, Clock], AsyncIterator[Finding]]
    todo: str
    seconds: float = SECONDS


Report = Callable[[Check, list[Finding]], None]

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
        name="figures",
        run=check_figures,
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
    settings: Settings,
    *,
    clock: Clock = utc_now,
    checks: tuple[Check, ...] = CHECKS,
    report: Report = lambda *_: None,
) -> list[Finding]:
    """Return the findings of every check, in the order of `checks`. Takes as long as the slowest
    check, and at most its time limit. Each check's findings are also reported when it ends."""
    results = await asyncio.gather(*(_run(check, settings, clock, report) for check in checks))
    return [finding for findings in results for finding in findings]


def examine_within(
    seconds: float, settings: Settings, *, checks: tuple[Check, ...] = CHECKS
) -> list[Finding]:
    """Return the findings of every check after at most this time, also if a check blocks its event
    loop: the loop runs in a thread, which is left behind."""
    ended: dict[str, list[Finding]] = {}
    all_ended = threading.Event()

    def report(check: Check, findings: list[Finding]) -> None:
        ended[check.name] = findings

    def run() -> None:
        async def main() -> None:
            await examine(settings, checks=checks, report=report)
            all_ended.set()  # here: to close the loop may take for ever

        run_async(main())

    threading.Thread(target=run, name="examine", daemon=True).start()
    all_ended.wait(seconds)
    return [
        finding
        for check in checks
        for finding in ended.get(check.name, [_unanswered(check, seconds)])
    ]


async def _run(check: Check, settings: Settings, clock: Clock, report: Report) -> list[Finding]:
    findings: list[Finding] = []

    async def collect() -> None:
        await _collect(check, settings, clock, findings)
        report(check, findings)  # before any other check can block the event loop

    collecting = asyncio.create_task(collect(), name=check.name)
    await asyncio.wait({collecting}, timeout=check.seconds)
    if not collecting.done():
        findings = [*findings, _unanswered(check, check.seconds)]
        report(check, findings)
        collecting.cancel()
        # it may wait for a thread or a driver that cannot be interrupted
        await asyncio.wait({collecting}, timeout=_CANCEL_SECONDS)
    return findings


async def _collect(check: Check, settings: Settings, clock: Clock, findings: list[Finding]) -> None:
    running = cast("Any", check.run(settings, clock))  # an async generator, which can be closed
    try:
        async with aclosing(running):
            async for finding in running:
                findings.append(finding)
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


def _unanswered(check: Check, seconds: float) -> Finding:
    return fail(check.name, f"No answer within {seconds:g} seconds.", todo=check.todo)
