"""`hookfast doctor`: what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import asdict

import structlog
import typer
from rich.text import Text

from hookfast.cli.console import out, read_settings
from hookfast.doctor.examination import examine
from hookfast.doctor.finding import Finding, Status, fail, worst
from hookfast.errors import Misconfigured

_MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}
_SAID: dict[Status, str] = {
    "ok": "Everything is as it should be.",
    "warn": "It works, with risks.",
    "fail": "Something does not work.",
}


def main(*, as_json: bool) -> None:
    """Examine, print, and exit with 1 where something does not work."""
    # what the parts log while they are tried is said better by the findings
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    try:
        findings = asyncio.run(examine(read_settings()))
    except Misconfigured as error:
        findings = [fail("settings", error.message, todo="Correct it; the rest is looked at then.")]
    status = worst(findings)
    if as_json:
        listed = [asdict(finding) for finding in findings]
        typer.echo(json.dumps({"status": status, "findings": listed}, ensure_ascii=False, indent=2))
    else:
        _print(findings, status)
    raise typer.Exit(1 if status == "fail" else 0)


def _print(findings: list[Finding], status: Status) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        mark, style = _MARKS[finding.status]
        out.print(
            Text.assemble((mark, style), f"  {finding.check:{width}}  {finding.saw}"),
            soft_wrap=True,
        )
        if finding.todo is not None:
            out.print(Text(f"      {'':{width}}  → {finding.todo}"), soft_wrap=True)
    out.print(Text(f"\n{_SAID[status]}", style=_MARKS[status][1]))
