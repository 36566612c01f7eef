"""`hookfast alerts`: the alert rules for Prometheus, with the links of this installation."""

from __future__ import annotations

import typer

from hookfast.cli.console import read_settings
from hookfast.telemetry.alert_rules import alert_rules


def main() -> None:
    """Print the rules, and on standard error which settings are missing for absolute links."""
    settings = read_settings()
    typer.echo(
        alert_rules(
            runbook_url=settings.runbook_url,
            grafana_url=settings.grafana_url,
            public_url=settings.resolved_public_url,
        ),
        nl=False,
    )
    missing = {
        "HOOKFAST_RUNBOOK_URL": (settings.runbook_url, "to the runbook are only paths"),
        "HOOKFAST_GRAFANA_URL": (settings.grafana_url, "to Grafana are only paths"),
        "HOOKFAST_PUBLIC_URL": (settings.public_url, "to Hookfast only work on its own machine"),
    }
    for name, (value, lack) in missing.items():
        if value is None:
            typer.echo(f"{name} is not set: links {lack}.", err=True)
