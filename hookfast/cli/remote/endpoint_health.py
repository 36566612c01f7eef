"""`hookfast endpoints`: check an endpoint, see its health, and pause, enable or recover it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import ApiResponse, path_of
from hookfast.cli.remote.bulk import JobOptions, act
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.emit import read_data
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.options import EndpointArgument, MappingFile, MappingText, read_mapping
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import (
    Column,
    pluralize,
    print_facts,
    print_note,
    print_text,
    printable,
)
from hookfast.cli.remote.times import (
    format_distance,
    format_time,
    format_time_if_set,
    parse_past,
)
from hookfast_client.call import Call

app = typer.Typer()

_AFTER_RESUME = {
    "open": "Its circuit is open; it is probed now.",
    "half_open": "Its circuit is half-open: one delivery probes whether it has recovered.",
    "draining": "Held deliveries are sent, slowly at first.",
}


@command(app, "test")
def send_test(
    remote: Remote,
    endpoint_id: EndpointArgument,
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="e.g. order.invoice.paid.")],
    subscription: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Of the endpoint; default: its oldest one to this event type."
        ),
        IdOf("subscription"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing: print the body that would be sent.")
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="The event's data; - is standard input; default: a sample."
        ),
    ] = None,
    mapping: MappingText = None,
    mapping_file: MappingFile = None,
) -> None:
    """Send a test event to an endpoint now and show the answer. Exit code: 1 when it failed.

    The event has sample data of its type, or --data. `hookfast tests show` shows the whole request
    for some days. With --dry-run, a --mapping that is not saved yet can be tried.
    """
    form = {
        "type": event_type,
        "subscription_id": subscription,
        "dry_run": dry_run,
        "mapping": read_mapping(mapping, mapping_file),
    }
    body = json.dumps({name: value for name, value in form.items() if value is not None}).encode()
    if data is not None:
        body = body[:-1] + b', "data": ' + read_data(data) + b"}"  # with its exact numbers
    path = path_of("endpoints", endpoint_id, "test")
    response = remote.api.send(Call(method="POST", path=path, body=body))
    if remote.printed_json(response):
        pass
    elif dry_run:
        print_text(response.value["body"], indent=0)
    else:
        print_facts(test_facts(response.value))
    if not dry_run and not response.value["succeeded"]:
        raise typer.Exit(1)


def test_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of the result of a test."""
    return {
        "result": result["result"],
        "status": None if result["status_code"] is None else str(result["status_code"]),
        "error": result["error"],
        "duration": f"{result['duration_ms']:.0f} ms",
        "response": result["response_excerpt"] or None,
        "message id": result["message_id"],
    }


@command(app, "verify")
def verify(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Ask an endpoint's receiver again whether it agrees to get the events."""
    response = remote.api.post(path_of("endpoints", endpoint_id, "verify"))
    if remote.printed_json(response):
        return
    if response.value["verification"] == "none":
        print_note("Its verification is none: only its URL was checked.")
    else:
        print_note(f"It agreed to {', '.join(response.value['topics'])}.")


@command(app, "stats")
def stats(
    remote: Remote,
    endpoint_id: EndpointArgument,
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Deliveries created since: 2h, 3d, or RFC 3339."),
    ] = "24h",
) -> None:
    """Show how many deliveries of an endpoint succeeded, and how fast it answers."""
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
    if not found["complete"]:
        number = pluralize(found["deliveries"]["total"], "delivery")
        print_note(
            f"Only the newest {number} are counted, from {format_time(found['since'])}: there are "
            "too many, or older ones are no longer kept."
        )


@command(app, "pause")
def pause(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Hold an endpoint's deliveries until it is resumed."""
    _request(remote, endpoint_id, "pause")


@command(app, "resume")
def resume(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Send the deliveries of a paused endpoint again; if its circuit is open, probe it now."""
    _request(remote, endpoint_id, "resume")
    if not remote.as_json:
        health = remote.api.get(path_of("endpoints", endpoint_id, "health")).value
        if sentence := _AFTER_RESUME.get(health["circuit"]["state"]):
            typer.echo(sentence)


@command(app, "disable")
def disable(remote: Remote, endpoint_id: EndpointArgument) -> None:
    """Stop sending to an endpoint. Its events become dead letters, which can be sent later."""
    _request(remote, endpoint_id, "disable")


@command(app, "enable")
def enable(
    remote: Remote,
    endpoint_id: EndpointArgument,
    redrive: Annotated[
        bool, typer.Option("--redrive", help="Send its dead letters again, as a job.")
    ] = False,
) -> None:
    """Send to an endpoint again."""
    response = _request(remote, endpoint_id, "enable", {"redrive": True} if redrive else None)
    job = response.value.get("job")
    if job is not None and not remote.as_json:
        from hookfast.cli.remote.jobs import started_sentence

        typer.echo(started_sentence(job))


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


@command(app, "recover")
def recover(
    remote: Remote,
    endpoint_id: EndpointArgument,
    job: JobOptions,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Failed at this time or later: 2h, 3d, or RFC 3339.")
    ],
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Failed before this time.")
    ] = None,
) -> None:
    """Send again the deliveries of an endpoint that failed in a time range."""
    body = {"since": parse_past(since)}
    if until is not None:
        body["until"] = parse_past(until)
    act(remote, path_of("endpoints", endpoint_id, "recover"), body, verb="Resend", options=job)


def _request(
    remote: Remote, endpoint_id: str, action: str, body: Mapping[str, Any] | None = None
) -> ApiResponse:
    """Request an action on the endpoint, and print its new state."""
    response = remote.api.post(path_of("endpoints", endpoint_id, action), body)
    if not remote.printed_json(response):
        endpoint = response.value
        sentence = f"{endpoint['id']} is {endpoint['state']}"
        reason = endpoint["state_reason"]
        typer.echo(printable(f"{sentence}: {reason}" if reason else f"{sentence}."))
    return response


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
