"""`hookfast endpoints`: see the health and the figures of an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import EndpointArgument
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts
from hookfast.cli.remote.times import (
    format_distance,
    format_time,
    format_time_if_set,
    parse_past,
)

app = typer.Typer()


@command(app, "health")
def health(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Show an endpoint's health: its circuit, failures, held deliveries, and mail to owners."""
    response = remote.api.get(path_of("endpoints", endpoint_id, "health"))
    if remote.printed_json(response):
        return
    found = response.value
    print_facts(
        {
            "endpoint": remote.named("endpoint", found["endpoint_id"]),
            "health": found["health"],
            "state": found["state"],
            "reason": found["state_reason"],
            **_circuit_facts(found["circuit"]),
            "failures in a row": found["consecutive_failures"],
            "first failure": format_time_if_set(found["first_failure_at"]),
            "last failure": format_time_if_set(found["last_failure_at"]),
            "last error": found["last_error"],
            "last success": format_time_if_set(found["last_success_at"]),
            "held": found["held"],
            "dead letters": found["dead_letters"],
            **_polling_facts(found["polling"]),
        }
    )
    if found["mail"]:
        remote.print_table(
            found["mail"],
            {
                "mail": "kind",
                "to": Column(value="email", least=20),
                "status": "status",
                "at": lambda mail: format_distance(mail["sent_at"] or mail["created_at"]),
                "error": Column(value="error", priority=2, least=20, wraps=True),
            },
            if_empty="",
        )


@command(app, "stats")
def stats(
    remote: Remote,
    endpoint_id: EndpointArgument,
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Deliveries and attempts since: 2h, 3d, or RFC 3339."),
    ] = "24h",
) -> None:
    """Show how many deliveries and attempts of an endpoint succeeded, and how fast it answers."""
    query = {"since": parse_past(since)}
    response = remote.api.get(path_of("endpoints", endpoint_id, "stats"), query)
    if remote.printed_json(response):
        return
    found = response.value
    by_status = {name: n for name, n in found["deliveries"]["by_status"].items() if n}
    rate, latency = found["success_rate"], found["latency_ms"]
    failures = [
        f"{name} {n:,}"
        for name, n in found["attempts"]["by_result"].items()
        if n and name != "success"
    ]
    print_facts(
        {
            "since": format_time(found["since"]),
            "deliveries": found["deliveries"]["total"],
            **by_status,
            "success rate": None if rate is None else f"{rate:.2%}",
            "attempts": found["attempts"]["total"],
            "failures": failures or None,
            "latency": None
            if latency is None
            else ", ".join(f"{name} {value:.0f} ms" for name, value in latency.items()),
        }
    )


def _circuit_facts(circuit: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of a circuit; of a closed one, only its state."""
    facts: dict[str, Any] = {"circuit": circuit["state"].replace("_", "-")}
    if circuit["state"] == "closed":
        return facts
    rate, workflow = circuit["drain_rate_per_second"], circuit["workflow"]
    return facts | {
        "opened": format_time_if_set(circuit["opened_at"]),
        "cause": circuit["cause"],
        "probes": circuit["probes"],
        "next probe": format_time_if_set(circuit["next_probe_at"]),
        "drained": None if rate is None else f"{circuit['drained']:,}, at {float(rate):g}/s",
        "disabled at": format_time_if_set(circuit["disable_at"]),
        "workflow": workflow["url"] or workflow["id"],
    }


def _polling_facts(polling: Mapping[str, Any] | None) -> dict[str, Any]:
    if polling is None:
        return {}
    more = "" if polling["complete"] else " or more"
    return {
        "acknowledged": format_time(polling["acknowledged_at"]),
        "not polled yet": f"{polling['behind']:,}{more}",
    }
