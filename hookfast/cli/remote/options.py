"""Which deliveries a command is about: the options, and what the API makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from hookfast.cli.remote.times import ago

_PANEL = "Which ones"


def _ago(text: str | None) -> str | None:
    return None if text is None else ago(text)


def _id(help_text: str) -> Any:
    return typer.Option(metavar="ID", help=help_text, rich_help_panel=_PANEL)


def _time(help_text: str) -> Any:
    return typer.Option(metavar="TIME", help=help_text, callback=_ago, rich_help_panel=_PANEL)


Everything = Annotated[bool, typer.Option("--all", help="All there are.", rich_help_panel=_PANEL)]
Limit = Annotated[int, typer.Option(min=1, help="Most rows.")]
Since = Annotated[str | None, _time("Created then or later: 2h, 3d, or RFC 3339.")]
Until = Annotated[str | None, _time("Created before then.")]
Endpoint = Annotated[str | None, _id("Of this endpoint.")]
Tenant = Annotated[str | None, _id("Of this tenant.")]
EventType = Annotated[
    str | None, typer.Option(metavar="TYPE", help="Of this event type.", rich_help_panel=_PANEL)
]
Reason = Annotated[
    str | None,
    typer.Option(help="Ended for this reason, word for word.", rich_help_panel=_PANEL),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Filters add up."""

    status: Annotated[
        list[str] | None,
        typer.Option(
            help="pending, retrying, held, paused, delivered, dead, gone or cancelled.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    endpoint: Endpoint = None
    subscription: Annotated[str | None, _id("Of this subscription.")] = None
    event: Annotated[str | None, _id("Of this event.")] = None
    event_type: EventType = None
    tenant: Tenant = None
    since: Since = None
    until: Until = None

    def members(self) -> dict[str, Any]:
        """What was given, under the API's names."""
        statuses = self.status or []
        return _given(
            status=statuses[0] if len(statuses) == 1 else statuses or None,
            endpoint_id=self.endpoint,
            subscription_id=self.subscription,
            event_id=self.event,
            event_type=self.event_type,
            tenant_id=self.tenant,
            since=self.since,
            until=self.until,
        )

    def query(self) -> dict[str, Any]:
        """It for a list, which takes one status. Raises typer.BadParameter for more."""
        if len(self.status or ()) > 1:
            raise typer.BadParameter("a list takes one --status")
        return self.members()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Filters add up."""

    endpoint: Endpoint = None
    event_type: EventType = None
    tenant: Tenant = None
    reason: Reason = None
    since: Since = None
    until: Until = None

    def members(self) -> dict[str, Any]:
        """What was given, under the API's names."""
        return _given(
            endpoint_id=self.endpoint,
            event_type=self.event_type,
            tenant_id=self.tenant,
            reason=self.reason,
            since=self.since,
            until=self.until,
        )


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
