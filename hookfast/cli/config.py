"""`hookfast config`: the settings in force, or every setting with its default."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import typer
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from rich.table import Table

from hookfast.cli.console import out, read_settings
from hookfast.settings.settings import Settings

_MASK = "********"
_GROUPS = {
    "home": "Service",
    "database_url": "Database and keys",
    "allowed_private_networks": "Network",
    "smtp_url": "Mail to owners",
    "portal_name": "Portal",
    "circuit_failure_threshold": "Circuits and jobs",
    "event_retention": "Retention",
    "event_type_parts": "Event types",
    "max_event_bytes": "Limits of the API",
    "response_excerpt_bytes": "Attempts and workers",
    "metrics_token": "Metrics and logs",
}
"""The headings of the groups in `docs/settings.md`, by the first setting of each."""
_PAGE = """# Settings

Settings come from the environment or a `.env` file. Secrets may also come from files:
`HOOKFAST_OPERATOR_KEY_FILE=/run/secrets/operator_key` reads `HOOKFAST_OPERATOR_KEY` from there.
`hookfast config` shows the settings in force, with secrets masked; `hookfast config --markdown`
prints this page. Temporal is configured with `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`,
`TEMPORAL_API_KEY` (also `TEMPORAL_API_KEY_FILE`) and `TEMPORAL_TLS_*`, telemetry with the `OTEL_*`
variables of OpenTelemetry. `TEMPORAL_DEPLOYMENT_NAME` and `TEMPORAL_WORKER_BUILD_ID` give workers a
version ([Worker versions](upgrading.md#worker-versions)); it is off by default.
"""


def main(*, as_json: bool, as_markdown: bool) -> None:
    """Print the settings in force, or every setting with its default as Markdown."""
    if as_markdown:
        typer.echo(markdown())
    elif as_json:
        settings = read_settings()
        values = {_variable(name): _plain(getattr(settings, name)) for name, _ in _in_order()}
        typer.echo(json.dumps(values, indent=2))
    else:
        out.print(_table(read_settings()))


def markdown() -> str:
    """Return the page `docs/settings.md`: every setting with its default, in groups."""
    lines = [_PAGE]
    for name, field in _in_order():
        if heading := _GROUPS.get(name):
            start = [f"## {heading}", "", "| variable | default | |", "|---|---|---|"]
            lines += start if len(lines) == 1 else ["", *start]
        default = _plain(field.get_default(call_default_factory=True, validated_data={}))
        shown = "" if default in (None, "") else f"`{_text(default)}`"
        lines.append(f"| `{_variable(name)}` | {shown} | {field.description} |")
    return "\n".join(lines)


def _in_order() -> list[tuple[str, FieldInfo]]:
    """Return the settings with their names, in the order of the groups."""
    groups: dict[str, list[tuple[str, FieldInfo]]] = {}
    first = ""
    for name, field in Settings.model_fields.items():
        first = name if name in _GROUPS else first
        groups.setdefault(first, []).append((name, field))
    return [setting for first in _GROUPS for setting in groups[first]]


def _table(settings: Settings) -> Table:
    table = Table(
        title="Settings in force",
        caption="Bold settings are set. Temporal is configured with TEMPORAL_ADDRESS, "
        "TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and TEMPORAL_TLS_*.",
        show_lines=True,
    )
    table.add_column("variable", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("description")
    for name, field in _in_order():
        style = "bold" if name in settings.model_fields_set else ""
        value = _text(_plain(getattr(settings, name)))
        table.add_row(_variable(name), value, field.description, style=style)
    return table


def _variable(name: str) -> str:
    return f"HOOKFAST_{name.upper()}"


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return _MASK
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
