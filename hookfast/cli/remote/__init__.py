"""The commands that talk to a running Hookfast over its API. The options of the top-level ones are
declared here for `--help`; the code of a command is imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from hookfast.cli.numbers import number_option
from hookfast.cli.remote.commands import command, lazy_group
from hookfast.cli.remote.emit_options import EmitOptions
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.listen_options import ListenOptions
from hookfast.cli.remote.options import DeliveryFilter, Limit
from hookfast.cli.remote.remote import Remote

_PANEL = "A running Hookfast"
_NOUNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "deliveries": (
        "List deliveries, wait for them, and act on one or a million.",
        ("deliveries",),
    ),
    "endpoints": (
        "The endpoints that receive: their settings, health and recovery.",
        ("endpoints", "endpoint_credentials", "endpoint_health", "endpoint_poll"),
    ),
    "tests": ("Test events that were sent to endpoints, with the answers.", ("tests",)),
    "dead-letters": (
        "Deliveries that ended without success: list, count and redrive them.",
        ("dead_letters",),
    ),
    "events": ("List events, and deliver them again.", ("events",)),
    "event-types": ("The types of events, with their JSON Schemas.", ("event_types",)),
    "subscriptions": ("Which event types go to which endpoint.", ("subscriptions",)),
    "sources": ("Providers whose webhooks Hookfast receives.", ("sources",)),
    "inbox": ("Received requests: list them, and retry failed ones.", ("inbox",)),
    "jobs": ("Progress of actions on many deliveries.", ("jobs",)),
    "tenants": ("Your customers.", ("tenants",)),
    "keys": ("API keys.", ("keys",)),
    "retention": ("How long everything is kept, and what was deleted.", ("retention",)),
    "audit": ("Who changed what, and when.", ("audit",)),
}
"""The description of each group, and the modules of its commands."""


def add_to(app: typer.Typer) -> None:
    """Add `emit`, `trigger`, `listen`, `logs`, `find`, `portal-link`, and a group of commands per
    noun to `app`."""
    command(app, "emit", panel=_PANEL)(_emit)
    command(app, "trigger", panel=_PANEL)(_trigger)
    command(app, "listen", panel=_PANEL)(_listen)
    command(app, "logs", panel=_PANEL)(_logs)
    command(app, "find", panel=_PANEL)(_find)
    command(app, "portal-link", panel=_PANEL)(_portal_link)
    for noun, (description, modules) in _NOUNS.items():
        commands = lazy_group(*(f"{__name__}.{module}" for module in modules))
        group = typer.Typer(cls=commands, no_args_is_help=True)
        app.add_typer(group, name=noun, help=description, rich_help_panel=_PANEL)


def _emit(options: EmitOptions, remote: Remote) -> None:
    """Emit an event, or a file of events.

    If it succeeds, the events and their deliveries are committed.
    """
    if options.batch is not None:
        one_event = (
            *(options.event_type, options.data, options.data_file),
            *(options.tenant, options.deliver_at),
        )
        if any(given is not None for given in one_event):
            raise typer.BadParameter(
                "use it alone: each line of the file has its event's type, tenant_id and data",
                param_hint="--batch",
            )
        from hookfast.cli.remote.emit_batch import emit_batch

        key, from_line = options.idempotency_key, options.from_line
        emit_batch(remote, options.batch, key=key, from_line=from_line)
        return
    if options.event_type is None or (options.data is None) == (options.data_file is None):
        raise typer.BadParameter("give TYPE and DATA, or TYPE and --data-file, or --batch")
    from hookfast.cli.remote.emit import emit

    emit(remote, options.event_type, options)


def _trigger(
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
    from hookfast.cli.remote import trigger

    if list_names:
        trigger.list_samples(remote)
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
        trigger.to_endpoint(remote, name, endpoint, count=count or 1)
        return
    sending = trigger.Sending(secret_file=secret_file, count=count or 1 + same_id, same_id=same_id)
    if source is not None:
        trigger.to_source(remote, name, source, sending=sending)
    elif to is not None:
        trigger.to_url(remote, name, to, options=options, sending=sending)


def _listen(options: ListenOptions, remote: Remote) -> None:
    """Forward events to a server on this machine, signed, and print its responses.

    It needs no public URL. After a lost connection it continues where it was.
    """
    if options.payload not in ("full", "raw"):
        raise typer.BadParameter("use full or raw", param_hint="--payload")
    from hookfast.cli.remote.listen import listen

    listen(remote, options)


def _find(
    remote: Remote,
    text: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT", help="An id, key, URL, event type or name, or a part of it."
        ),
    ],
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TENANT", help="Only what belongs to this tenant, by id or name."),
        IdOf("tenant"),
    ] = None,
) -> None:
    """Find what an id, a key, a URL, an event type or a name belongs to.

    Also ids inside a longer text, such as a line of a log. Exit code: 1 when nothing was found.
    """
    from hookfast.cli.remote.find import find

    find(remote, " ".join(text), tenant=tenant)


def _logs(
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
    from hookfast.cli.remote.logs import print_logs

    print_logs(remote, selected.query(), limit=limit, follow=follow)


def _portal_link(
    remote: Remote,
    tenant: Annotated[
        str | None,
        typer.Argument(metavar="TENANT", help="Only what belongs to this tenant, by id or name."),
        IdOf("tenant"),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="ENDPOINT",
            help="Only this endpoint and its deliveries, by id, name or URL.",
        ),
        IdOf("endpoint"),
    ] = None,
    valid_for: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long it is valid; at most 7d.")
    ] = "1h",
    may_act: Annotated[
        bool,
        typer.Option(
            "--may-act/--read-only", help="Whether it also allows pausing, resending, changing…"
        ),
    ] = False,
) -> None:
    """Create a link to the portal for somebody without an API key.

    Give TENANT or --endpoint. Revoking the API key that created the link also ends the link.
    """
    from hookfast.cli.remote.tenants import portal_link
    from hookfast.cli.remote.times import parse_duration

    if tenant is None and endpoint is None:
        raise typer.BadParameter("give TENANT, --endpoint, or both")
    duration = parse_duration(valid_for)
    portal_link(remote, tenant, endpoint=endpoint, may_act=may_act, valid_for=duration)
