"""The commands that talk to a running Hookfast over its API.

Those without a noun declare their options in the face of a package, for `--help`. All other code is
imported when its command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from hookfast.cli.remote.commands import command, lazy_group
from hookfast.cli.remote.emit import emit_command
from hookfast.cli.remote.figures import figures_command
from hookfast.cli.remote.find import find_command
from hookfast.cli.remote.listen import listen_command
from hookfast.cli.remote.logs import logs_command
from hookfast.cli.remote.portal_link import portal_link_command
from hookfast.cli.remote.trigger import trigger_command

_PANEL = "A running Hookfast"
_COMMANDS: Mapping[str, Callable[..., None]] = {
    "emit": emit_command,
    "trigger": trigger_command,
    "listen": listen_command,
    "logs": logs_command,
    "find": find_command,
    "figures": figures_command,
    "portal-link": portal_link_command,
}
_NOUNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "deliveries": (
        "List deliveries, wait for them, and act on one or a million.",
        ("deliveries",),
    ),
    "endpoints": (
        "The endpoints that receive: their settings, health and recovery.",
        (
            *("endpoints", "endpoint_credentials", "endpoint_test", "endpoint_health"),
            *("endpoint_actions", "endpoint_poll"),
        ),
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
    """Add the commands without a noun, and a group of commands per noun, to `app`."""
    for name, function in _COMMANDS.items():
        command(app, name, panel=_PANEL)(function)
    for noun, (description, modules) in _NOUNS.items():
        commands = lazy_group(*(f"{__name__}.{module}" for module in modules))
        group = typer.Typer(cls=commands, no_args_is_help=True)
        app.add_typer(group, name=noun, help=description, rich_help_panel=_PANEL)
