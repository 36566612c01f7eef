"""The options of `hookfast outbox-relay`, declared without importing its code, for `--help`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hookfast.cli.numbers import number_option
from hookfast.cli.remote.remote import Url

DATABASE_VARIABLE = "HOOKFAST_OUTBOX_DATABASE_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """The options of `hookfast outbox-relay`."""

    database_url: Annotated[
        str | None,
        typer.Option(
            envvar=DATABASE_VARIABLE,
            show_envvar=False,
            help=f"URL of the application's PostgreSQL database. Set {DATABASE_VARIABLE} instead "
            "if it has a password, which everyone on the machine could see here.",
        ),
    ] = None
    table: Annotated[
        str, typer.Option(help="Name of the outbox table, `table` or `schema.table`.")
    ] = "hookfast_outbox"
    keep: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="How long rows are kept after they were sent, e.g. 7d."
        ),
    ] = "0s"
    batch: Annotated[
        int, number_option(kind=int, least=1, most=1_000, help="Most events of a request.")
    ] = 500
    poll: Annotated[
        float,
        number_option(
            kind=float,
            metavar="SECONDS",
            least=0.05,
            most=3_600,
            help="How often the table is looked at if PostgreSQL sends no notification.",
        ),
    ] = 1.0
    parallel: Annotated[
        bool,
        typer.Option(
            "--parallel/--in-order",
            help="Let several relays of the table work at the same time, and keep no order.",
        ),
    ] = False
    once: Annotated[
        bool, typer.Option("--once", help="End when no row is left that can be sent now.")
    ] = False
    metrics_port: Annotated[
        int | None,
        number_option(
            kind=int,
            least=0,
            most=65_535,
            help="Port of /metrics, on HOOKFAST_HOST, for who has HOOKFAST_METRICS_TOKEN; 0 takes "
            "a free one. [default: no metrics]",
        ),
    ] = None
    print_sql: Annotated[
        bool, typer.Option("--print-sql", help="Print the statements that create the table, only.")
    ] = False
    url: Url = None
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the API key, whose scope `emit` is enough. Or set HOOKFAST_API_KEY.",
            rich_help_panel="Connection",
        ),
    ] = None
