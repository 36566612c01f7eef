"""`hookfast trigger`: send a signed sample request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hookfast.cli.numbers import number_option
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.remote import Remote


def trigger_command(
    remote: Remote,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="e.g. github.push; --list shows all.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Send it to this source, by id or name, as its provider would.",
        ),
        IdOf("source"),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send it to your server, as the provider would."),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="ENDPOINT",
            help="Have Hookfast send a test with its data to this endpoint, by id, name or URL.",
        ),
        IdOf("endpoint"),
    ] = None,
    list_names: Annotated[bool, typer.Option("--list", help="List the samples.")] = False,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            allow_dash=True,
            help="File with the secret to sign with; - reads standard input. Or set "
            "HOOKFAST_TRIGGER_SECRET; on a terminal you are asked for it.",
        ),
    ] = None,
    options: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="The provider's options, only with --to."),
    ] = None,
    count: Annotated[
        int | None,
        number_option(kind=int, least=1, most=1_000, help="How many to send. [default: 1]"),
    ] = None,
    same_id: Annotated[
        bool,
        typer.Option(
            "--same-id/--new-id",
            help="Send the same request each time (at least twice), which a receiver must process "
            "once; or a new one each time.",
        ),
    ] = False,
) -> None:
    """Send a realistic signed sample request to a source, a server or an endpoint.

    Exit code: 1 when a response is not 2xx.
    """
    from hookfast.cli.remote.trigger import send

    if list_names:
        send.list_samples(remote)
        return
    if name is None or sum(where is not None for where in (source, to, endpoint)) != 1:
        raise typer.BadParameter("give NAME, and one of --source, --to and --endpoint; or --list")
    if options is not None and to is None:
        raise typer.BadParameter("use it only with --to", param_hint="--options")
    if endpoint is not None:
        if same_id or secret_file is not None:
            raise typer.BadParameter(
                "a test is always new, and signed by Hookfast", param_hint="--endpoint"
            )
        send.to_endpoint(remote, name, endpoint, count=count or 1)
        return
    sending = send.Sending(secret_file=secret_file, count=count or 1 + same_id, same_id=same_id)
    if source is not None:
        send.to_source(remote, name, source, sending=sending)
    elif to is not None:
        send.to_url(remote, name, to, options=options, sending=sending)
