"""`hookfast logs`: the newest attempts of a running service."""

from __future__ import annotations

from typing import Annotated

import typer

from hookfast.cli.remote.options import DeliveryFilter, Limit
from hookfast.cli.remote.remote import Remote


def logs_command(
    remote: Remote,
    selected: DeliveryFilter,
    limit: Limit = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new attempts until Ctrl-C.")
    ] = False,
) -> None:
    """Print the newest attempts of deliveries, oldest first, and what comes next.

    One line per request; a delivery that ends without one (cancelled, or its endpoint is disabled)
    has no line. --answer, --since and --until are about the attempt, the other filters about its
    delivery as it is now. --json prints one JSON object per line.
    """
    from hookfast.cli.remote.logs.tail import print_logs

    print_logs(remote, selected.query(), limit=limit, follow=follow)
