"""The commands that talk to a running Hookfast, over its API. What `--help` shows is here; what a
command does is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from hookfast.cli.remote.commands import command, lazy_group
from hookfast.cli.remote.remote import Remote

_PANEL = "A running Hookfast"
_NOUNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "deliveries": (
        "Look at deliveries, wait for them, and act on one or a million.",
        ("deliveries",),
    ),
    "endpoints": (
        "The URLs that receive: their state, their health, their recovery.",
        ("endpoints", "endpoint_health", "endpoint_poll"),
    ),
    "dead-letters": (
        "Deliveries that ended without success, and sending them again.",
        ("dead_letters",),
    ),
    "events": ("Look at events, and deliver them again.", ("events",)),
    "sources": ("Providers whose webhooks come in.", ("sources",)),
    "inbox": ("What came in, and trying again what failed.", ("inbox",)),
    "jobs": ("How far actions on many deliveries have come.", ("jobs",)),
    "tenants": ("Your customers.", ("tenants",)),
    "keys": ("API keys.", ("keys",)),
    "retention": ("How long things are kept, and what went.", ("retention",)),
    "audit": ("Who changed what, and when.", ("audit",)),
}
"""Each group's description, and the modules its commands are in."""


def add_to(app: typer.Typer) -> None:
    """Add `emit`, `trigger`, `listen`, `portal-link`, and a group of commands per noun to `app`."""
    command(app, "emit", panel=_PANEL)(_emit)
    command(app, "trigger", panel=_PANEL)(_trigger)
    command(app, "listen", panel=_PANEL)(_listen)
    command(app, "portal-link", panel=_PANEL)(_portal_link)
    for noun, (description, modules) in _NOUNS.items():
        commands = lazy_group(*(f"{__name__}.{module}" for module in modules))
        group = typer.Typer(cls=commands, no_args_is_help=True)
        app.add_typer(group, name=noun, help=description, rich_help_panel=_PANEL)


def _emit(
    remote: Remote,
    event_type: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="e.g. order.invoice.paid.")
    ] = None,
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="Its data as JSON; - reads them.")
    ] = None,
    data_file: Annotated[
        Path | None, typer.Option(allow_dash=True, help="File with its data as JSON.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="ID", help="The one tenant it is for; default: all.")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Makes it safe to run again. The event on line N of a batch has the key KEY:N.",
        ),
    ] = None,
    deliver_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When to deliver it: 2h, 3d, or RFC 3339.")
    ] = None,
    batch: Annotated[
        Path | None,
        typer.Option(
            allow_dash=True,
            help="File with an event per line, as POST /v1/events takes it; - reads them.",
        ),
    ] = None,
    from_line: Annotated[int, typer.Option(min=1, help="The line of the batch to begin with.")] = 1,
) -> None:
    """Emit an event, or a file of events.

    When it ends well, the events and their deliveries are committed.
    """
    if batch is not None:
        if any(given is not None for given in (event_type, data, data_file, tenant, deliver_at)):
            raise typer.BadParameter(
                "goes alone: each line of the file names its event's type, tenant_id and data",
                param_hint="--batch",
            )
        from hookfast.cli.remote.emit_batch import emit_batch

        emit_batch(remote, batch, key=idempotency_key, from_line=from_line)
        return
    if event_type is None or (data is None) == (data_file is None):
        raise typer.BadParameter("give TYPE and DATA, or TYPE and --data-file, or --batch")
    from hookfast.cli.remote.emit import emit

    emit(
        remote,
        event_type,
        data=data,
        data_file=data_file,
        tenant=tenant,
        key=idempotency_key,
        deliver_at=deliver_at,
    )


def _trigger(
    remote: Remote,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="e.g. github.push; --list shows them.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="ID", help="Send it to this source, as its provider.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send it to a server of yours, as the provider would."),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Have Hookfast send a test with its data to this endpoint, signed for it.",
        ),
    ] = None,
    list_names: Annotated[
        bool, typer.Option("--list", help="Show which samples there are.")
    ] = False,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            allow_dash=True,
            help="File with the secret to sign with; - reads it. Or set HOOKFAST_TRIGGER_SECRET; "
            "on a terminal it is asked for.",
        ),
    ] = None,
    options: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="The provider's options, with --to; a source has them."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="How many to send. [default: 1]")
    ] = None,
    same_id: Annotated[
        bool,
        typer.Option(
            "--same-id/--new-id",
            help="The same request again and again (twice at least), which a receiver must take "
            "once; or a new delivery each time.",
        ),
    ] = False,
) -> None:
    """Send a realistic signed sample request to a source, a server or an endpoint.

    Ends with 1 where an answer is not 2xx.
    """
    from hookfast.cli.remote import trigger

    if list_names:
        trigger.list_samples(remote)
        return
    if name is None or sum(where is not None for where in (source, to, endpoint)) != 1:
        raise typer.BadParameter("give NAME, and one of --source, --to and --endpoint; or --list")
    if options is not None and to is None:
        raise typer.BadParameter("goes with --to alone", param_hint="--options")
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


def _listen(
    remote: Remote,
    forward_to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Your server, e.g. http://localhost:3000/hooks; without it they are only shown.",
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="ID", help="Only what came in through this source.")
    ] = None,
    events: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only such event types: 'order.**'. Repeatable."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="ID", help="What this tenant sees; default: everything.")
    ] = None,
    payload: Annotated[
        str,
        typer.Option(
            metavar="full|raw",
            help="raw: what came in through a source goes on as it came in.",
        ),
    ] = "full",
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Begin 5m ago, at a time, or behind an event's id or a cursor; default: now.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Keeps how far it has come; where it exists already, it goes on from there.",
        ),
    ] = None,
    retry: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=1_000,
            help="How often to send an event again that was not answered with 2xx. Where nothing "
            "listens at the URL, it is always sent again until something does.",
        ),
    ] = 0,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="Requests at once; 1 keeps the order.")
    ] = 1,
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote", help="Forward also to what is no private network of this machine's."
        ),
    ] = False,
) -> None:
    """Forward events to a server on this machine, signed, and show what it answers.

    It needs no public URL. After a lost connection it goes on where it was.
    """
    if payload not in ("full", "raw"):
        raise typer.BadParameter("is full or raw", param_hint="--payload")
    from hookfast.cli.remote.listen import ListenOptions, listen

    listen(
        remote,
        ListenOptions(
            forward_to=forward_to,
            allow_remote=allow_remote,
            tenant=tenant,
            source=source,
            events=tuple(events or ()),
            payload=payload,
            since=since,
            resume=resume,
            retries=retry,
            concurrency=concurrency,
        ),
    )


def _portal_link(
    remote: Remote,
    tenant: Annotated[
        str | None, typer.Argument(metavar="TENANT", help="Whose part of the dashboard; tnt_….")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this endpoint and its deliveries.")
    ] = None,
    lasting: Annotated[
        str, typer.Option("--for", metavar="SPAN", help="How long it opens; at most 7d.")
    ] = "1h",
    may_act: Annotated[
        bool,
        typer.Option("--may-act/--read-only", help="Whether they may also pause, resend, change…"),
    ] = False,
) -> None:
    """Make a link into the dashboard for somebody without an API key.

    Needs TENANT or --endpoint. It ends early when the API key that made it is revoked.
    """
    from hookfast.cli.remote.tenants import portal_link
    from hookfast.cli.remote.times import duration

    if tenant is None and endpoint is None:
        raise typer.BadParameter("give TENANT, --endpoint, or both")
    portal_link(remote, tenant, endpoint=endpoint, may_act=may_act, lasting=duration(lasting))
