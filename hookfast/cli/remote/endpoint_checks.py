"""`hookfast endpoints test|verify|stats`: whether an endpoint works, now and lately."""

from __future__ import annotations

from typing import Annotated

import typer

from hookfast.cli.remote.client import path_of
from hookfast.cli.remote.endpoints import EndpointId
from hookfast.cli.remote.moment import ago, shown
from hookfast.cli.remote.option_groups import command
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import counted, say, show_facts

app = typer.Typer()


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
