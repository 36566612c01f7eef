"""The options of `hookfast listen`, declared without importing its code, for `--help`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hookfast.cli.numbers import number_option
from hookfast.cli.remote.id_of import IdOf


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """The options of `hookfast listen`."""

    forward_to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Your server, e.g. http://localhost:3000/hooks; without it, events are only "
            "printed.",
        ),
    ] = None
    source: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE", help="Only events received through this source, by id or name."
        ),
        IdOf("source"),
    ] = None
    events: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only such event types: 'order.**'. Repeatable."),
    ] = None
    tenant: Annotated[
        str | None,
        typer.Option(
            metavar="TENANT", help="Only this tenant's events, by id or name; default: all."
        ),
        IdOf("tenant"),
    ] = None
    payload: Annotated[
        str,
        typer.Option(
            metavar="full|raw",
            help="raw: events of a source are forwarded exactly as the provider sent them.",
        ),
    ] = "full"
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Begin 5m ago, at a time, or after an event's id or a cursor; default: now.",
        ),
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="File that keeps the position; if it exists, listening continues from there.",
        ),
    ] = None
    retry: Annotated[
        int,
        number_option(
            kind=int,
            least=0,
            most=1_000,
            help="How often to send an event again whose response was not 2xx. While nothing "
            "listens at the URL, events are always sent again.",
        ),
    ] = 0
    concurrency: Annotated[
        int,
        number_option(kind=int, least=1, most=100, help="Requests at once; 1 keeps the order."),
    ] = 1
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote",
            help="Forward also to servers that are neither on this machine nor in a private "
            "network.",
        ),
    ] = False
