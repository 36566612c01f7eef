"""`hookfast outbox-relay`: send what an application has written into its outbox table. The code is
imported when it runs."""

from __future__ import annotations

import typer

from hookfast.cli.outbox.options import DATABASE_VARIABLE, RelayOptions


def outbox_relay(options: RelayOptions) -> None:
    """Send the events that an application has written into its PostgreSQL outbox.

    Each committed row becomes exactly one event. Any number of relays may run.
    """
    from hookfast.cli.outbox.relay import print_sql, relay

    if options.print_sql:
        print_sql(options.table)
        return
    if options.database_url is None:
        raise typer.BadParameter(f"give --database-url, or set {DATABASE_VARIABLE}")
    relay(options, database_url=options.database_url)
