"""`hookfast endpoints pause|resume|enable|disable|health|recover`: an endpoint in trouble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.bulk import JobOptions, act
from hookfast.cli.remote.client import Answer, path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.endpoints import EndpointId
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import counted, plain, say, show_facts, show_table
from hookfast.cli.remote.times import ago, distance, shown

app = typer.Typer()

_AFTER_RESUME = {
    "open": "Its circuit is open; it is probed now.",
    "half_open": "Its circuit is half-open: one delivery finds out whether the endpoint is back.",
    "draining": "What was held goes out, slowly at first.",
}


@command(app, "pause")
def pause(remote: Remote, endpoint_id: EndpointId) -> None:
    """Hold its deliveries until it is resumed."""
    _tell(remote, endpoint_id, "pause")


@command(app, "resume")
def resume(remote: Remote, endpoint_id: EndpointId) -> None:
    """Let the deliveries of a paused endpoint go; where its circuit is open, probe it now."""
    _tell(remote, endpoint_id, "resume")
    if not remote.as_json:
        found = remote.api.get(path_of("endpoints", endpoint_id, "health")).value
        if sentence := _AFTER_RESUME.get(found["circuit"]["state"]):
            typer.echo(sentence)


@command(app, "disable")
def disable(remote: Remote, endpoint_id: EndpointId) -> None:
    """Send nothing more to it. Events for it become dead letters, which can be sent later."""
    _tell(remote, endpoint_id, "disable")


@command(app, "enable")
def enable(
    remote: Remote,
    endpoint_id: EndpointId,
    redrive: Annotated[
        bool, typer.Option("--redrive", help="Send its dead letters again, as a job.")
    ] = False,
) -> None:
    """Send to it again."""
    answer = _tell(remote, endpoint_id, "enable", {"redrive": True} if redrive else None)
    job = answer.value.get("job")
    if job is not None and not remote.as_json:
        from hookfast.cli.remote.jobs import started

        typer.echo(started(job))


@command(app, "health")
def health(remote: Remote, endpoint_id: EndpointId) -> None:
    """Show how it fares: its circuit, its failures, what waits, and the mail about it."""
    answer = remote.api.get(path_of("endpoints", endpoint_id, "health"))
    if remote.as_json:
        remote.print_json(answer)
        return
    found = answer.value
    show_facts(
        {
            "endpoint": found["endpoint_id"],
            "state": found["state"],
            "because": found["state_reason"],
            **_circuit(found["circuit"]),
            "failures in a row": found["consecutive_failures"],
            "first of them": _shown(found["first_failure_at"]),
            "last failure": _shown(found["last_failure_at"]),
            "last error": found["last_error"],
            "recovered": _shown(found["last_success_at"]),
            "held": found["held"],
            "dead letters": found["dead_letters"],
            **_polling(found["polling"]),
        }
    )
    if found["mail"]:
        show_table(
            ("mail", "to", "status", "when", "error"),
            [
                (
                    mail["kind"],
                    mail["email"],
                    mail["status"],
                    distance(mail["sent_at"] or mail["created_at"]),
                    mail["error"],
                )
                for mail in found["mail"]
            ],
            nothing="",
            wide="error",
        )


@command(app, "recover")
def recover(
    remote: Remote,
    endpoint_id: EndpointId,
    job: JobOptions,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Failed then or later: 2h, 3d, or RFC 3339.")
    ],
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Failed before then.")] = None,
) -> None:
    """Send again what failed at an endpoint in a window of time."""
    body = {"since": ago(since), **({} if until is None else {"until": ago(until)})}
    act(remote, path_of("endpoints", endpoint_id, "recover"), body, verb="Resend", options=job)


def _tell(
    remote: Remote, endpoint_id: str, action: str, body: Mapping[str, Any] | None = None
) -> Answer:
    answer = remote.api.post(path_of("endpoints", endpoint_id, action), body)
    if remote.as_json:
        remote.print_json(answer)
    else:
        reason = answer.value["state_reason"]
        sentence = f"{answer.value['id']} is {answer.value['state']}"
        typer.echo(plain(f"{sentence}: {reason}" if reason else f"{sentence}."))
    return answer


def _circuit(circuit: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to say of a circuit; of a closed one, that it is closed."""
    facts: dict[str, Any] = {"circuit": circuit["state"].replace("_", "-")}
    if circuit["state"] == "closed":
        return facts
    rate, workflow = circuit["drain_rate_per_second"], circuit["workflow"]
    return facts | {
        "since": _shown(circuit["opened_at"]),
        "cause": circuit["cause"],
        "probes": circuit["probes"],
        "next probe": _shown(circuit["next_probe_at"]),
        "drained": None if rate is None else f"{circuit['drained']:,}, at {rate:g}/s",
        "gives up": _shown(circuit["disable_at"]),
        "workflow": workflow["url"] or workflow["id"],
    }


def _shown(moment: str | None) -> str | None:
    return None if moment is None else shown(moment)


def _polling(found: Mapping[str, Any] | None) -> dict[str, Any]:
    if found is None:
        return {}
    more = "" if found["complete"] else " or more"
    return {
        "acknowledged": shown(found["acknowledged_at"]),
        "to be polled": f"{found['behind']:,}{more}",
    }


@command(app, "test")
def test(
    remote: Remote,
    endpoint_id: EndpointId,
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="e.g. order.invoice.paid.")],
) -> None:
    """Send a sample event to it now and show what came back. Ends with 1 where it failed."""
    answer = remote.api.post(path_of("endpoints", endpoint_id, "test"), {"type": event_type})
    found = answer.value
    if remote.as_json:
        remote.print_json(answer)
    else:
        show_facts(
            {
                "result": found["result"],
                "status": None if found["status_code"] is None else str(found["status_code"]),
                "error": found["error"],
                "took": f"{found['duration_ms']:.0f} ms",
                "answer": found["response_excerpt"] or None,
                "message id": found["message_id"],
            }
        )
    if not found["succeeded"]:
        raise typer.Exit(1)


@command(app, "verify")
def verify(remote: Remote, endpoint_id: EndpointId) -> None:
    """Ask its receiver again whether it wants the events."""
    answer = remote.api.post(path_of("endpoints", endpoint_id, "verify"))
    if remote.as_json:
        remote.print_json(answer)
    elif answer.value["verification"] == "none":
        say("It is not verified; its URL leads where events may be sent.")
    else:
        say(f"It agreed to {', '.join(answer.value['topics'])}.")


@command(app, "stats")
def stats(
    remote: Remote,
    endpoint_id: EndpointId,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Deliveries made since: 2h, 3d, or RFC 3339.")
    ] = "24h",
) -> None:
    """Show how its deliveries went and how fast it answers."""
    answer = remote.api.get(path_of("endpoints", endpoint_id, "stats"), {"since": ago(since)})
    if remote.as_json:
        remote.print_json(answer)
        return
    found = answer.value
    by_status = {name: n for name, n in found["deliveries"]["by_status"].items() if n}
    rate, latency = found["success_rate"], found["latency_ms"]
    show_facts(
        {
            "since": shown(found["since"]),
            "deliveries": found["deliveries"]["total"],
            **by_status,
            "success rate": None if rate is None else f"{rate:.2%}",
            "attempts": found["attempts"]["total"],
            "failed by": [
                f"{name} {n:,}"
                for name, n in found["attempts"]["by_result"].items()
                if n and name != "success"
            ]
            or None,
            "answers in": None
            if latency is None
            else ", ".join(f"{name} {value:.0f} ms" for name, value in latency.items()),
        }
    )
    if not found["complete"]:
        number = counted(found["deliveries"]["total"], "delivery")
        say(
            f"Only the newest {number} are counted, from {shown(found['since'])}: there are too "
            "many, or those before are no longer kept."
        )
