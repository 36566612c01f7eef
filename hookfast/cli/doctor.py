"""`hookfast doctor`: print what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict

import structlog
import typer
from rich.text import Text

from hookfast.cli.console import out, read_settings
from hookfast.doctor.examination import examine_within
from hookfast.doctor.finding import Finding, Status, fail, worst
from hookfast.errors import Misconfigured

_SECONDS = 40.0
"""Longest time for all checks together. They run at once, and the longest has 30 seconds."""
_MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}
_SUMMARIES: dict[Status, str] = {
    "ok": "Everything works.",
    "warn": "Everything works, with risks.",
    "fail": "Something does not work.",
}


def main(*, as_json: bool) -> None:
    """Run every check, print the findings, and exit with 1 if something does not work."""
    # the findings say better what the checked parts would log
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    runbook: str | None = None
    try:
        settings = read_settings()
        runbook = settings.runbook_url
        findings = examine_within(_SECONDS, settings)
    except Misconfigured as error:
        todo = "Correct it; then the other checks can run."
        findings = [fail("settings", error.message, todo=todo)]
    status = worst(findings)
    if as_json:
        listed = [asdict(finding) for finding in findings]
        typer.echo(json.dumps({"status": status, "findings": listed}, ensure_ascii=False, indent=2))
    else:
        _print(findings, status, runbook=runbook)
    raise typer.Exit(1 if status == "fail" else 0)


def _print(findings: list[Finding], status: Status, *, runbook: str | None) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        mark, style = _MARKS[finding.status]
        out.print(
            Text.assemble((mark, style), f"  {finding.check:{width}}  {finding.saw}"),
            soft_wrap=True,
        )
        if finding.todo is not None:
            out.print(Text(f"      {'':{width}}  → {finding.todo}"), soft_wrap=True)
    out.print(Text(f"\n{_SUMMARIES[status]}", style=_MARKS[status][1]))
    if runbook is not None and status != "ok":
        out.print(Text(f"Runbook: {runbook}"), soft_wrap=True)
