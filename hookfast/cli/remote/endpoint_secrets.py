"""`hookfast endpoints rotate-secret`: a new secret, with time for the receiver to change over."""

from __future__ import annotations

from typing import Annotated

import typer

from hookfast.cli.remote.client import path_of
from hookfast.cli.remote.endpoints import EndpointId
from hookfast.cli.remote.moment import duration, shown
from hookfast.cli.remote.option_groups import command
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import say

app = typer.Typer()


@command(app, "rotate-secret")
def rotate_secret(
    remote: Remote,
    endpoint_id: EndpointId,
    overlap: Annotated[
        str,
        typer.Option(metavar="TIME", help="For how long the old one signs too, up to 7d; 0s: not."),
    ] = "24h",
) -> None:
    """Give an endpoint a new secret and print it, the only time anyone sees it."""
    seconds = int(duration(overlap).total_seconds())
    answer = remote.api.post(
        path_of("endpoints", endpoint_id, "rotate-secret"), {"overlap_seconds": seconds}
    )
    if remote.as_json:
        remote.print_json(answer)
        return
    for secret in answer.value["secrets"]:
        if secret["expires_at"] is None:
            if secret["public_key"] is not None:
                say(f"Its new public key is {secret['public_key']}.")
        else:
            say(
                f"The {secret['kind']} secret of {shown(secret['created_at'])} signs too until "
                f"{shown(secret['expires_at'])}."
            )
    say("Its new secret is shown this once:")
    typer.echo(answer.value["secret"])
