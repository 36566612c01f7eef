"""Arguments and options that several commands share, and the reading of their values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from hookfast.cli.numbers import number_option
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.times import parse_past
from hookfast.errors import InvalidInput
from hookfast.strict_json.parser import parse


def filter_option(
    help_text: str,
    *names: str,
    metavar: str | None = None,
    callback: Callable[[str | None], str | None] | None = None,
) -> Any:
    """Return a typer option that `--help` lists among the filters."""
    return typer.Option(
        *names, metavar=metavar, help=help_text, callback=callback, rich_help_panel="Filters"
    )


def _past(text: str | None) -> str | None:
    return None if text is None else parse_past(text)


def _argument(noun: str, what: str) -> Any:
    return typer.Argument(metavar=noun.upper(), help=f"{what}, or a part that only one has.")


def _exact_argument(noun: str, what: str) -> Any:
    return typer.Argument(metavar=noun.upper(), help=f"{what}.")


EndpointArgument = Annotated[
    str, _argument("endpoint", "Its id, description or URL"), IdOf("endpoint")
]
TenantArgument = Annotated[str, _argument("tenant", "Its id or name"), IdOf("tenant")]
SourceArgument = Annotated[str, _argument("source", "Its id or name"), IdOf("source")]
SubscriptionArgument = Annotated[
    str, _argument("subscription", "Its id, one of its patterns"), IdOf("subscription")
]
DeletedEndpoint = Annotated[
    str,
    _exact_argument("endpoint", "Its id, description or URL"),
    IdOf("endpoint", exact=True),
]
DeletedSource = Annotated[
    str, _exact_argument("source", "Its id or name"), IdOf("source", exact=True)
]
DeletedSubscription = Annotated[
    str,
    _exact_argument("subscription", "Its id, or one of its patterns"),
    IdOf("subscription", exact=True),
]
RevokedKey = Annotated[str, _exact_argument("key", "Its id or name"), IdOf("API key", exact=True)]
_ID = typer.Argument(metavar="ID", help="Its id, or the end of it.")
DeliveryArgument = Annotated[str, _ID, IdOf("delivery")]
EventArgument = Annotated[str, _ID, IdOf("event")]
JobArgument = Annotated[str, _ID, IdOf("job")]
InboxArgument = Annotated[str, _ID, IdOf("inbox entry")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Their ids, or the ends of them.", show_default=False),
    IdOf("delivery"),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Limit = Annotated[int, number_option(kind=int, least=1, help="Maximum number of rows.")]
Everything = Annotated[bool, filter_option("Select all of them.", "--all")]
Since = Annotated[
    str | None,
    filter_option(
        "Created at this time or later: 2h, 3d, or RFC 3339.", metavar="TIME", callback=_past
    ),
]
Until = Annotated[
    str | None, filter_option("Created before this time.", metavar="TIME", callback=_past)
]
Endpoint = Annotated[
    str | None,
    filter_option("Of this endpoint: id, name, URL or a part.", metavar="ENDPOINT"),
    IdOf("endpoint"),
]
Tenant = Annotated[
    str | None,
    filter_option("Of this tenant: id, name or a part.", metavar="TENANT"),
    IdOf("tenant"),
]
Source = Annotated[
    str | None,
    filter_option("Of this source: id, name or a part.", metavar="SOURCE"),
    IdOf("source"),
]
OwnTenant = Annotated[
    str | None,
    typer.Option(
        metavar="TENANT", help="Its tenant, by id or name; a tenant's key implies its own."
    ),
    IdOf("tenant"),
]
Answer = Annotated[
    str | None,
    filter_option("Whose last answer is 503, 5xx, timeout, refused…", metavar="ANSWER"),
]
EventType = Annotated[str | None, filter_option("Of this event type.", metavar="TYPE")]
_THINGS = ("endpoint", "subscription", "event", "tenant")
"""The options whose value is an id; the API's filters are called `endpoint_id` and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Options that select deliveries; a delivery has to match all of them."""

    status: Annotated[
        list[str] | None,
        filter_option("pending, retrying, held, paused, delivered, dead, gone or cancelled."),
    ] = None
    endpoint: Endpoint = None
    subscription: Annotated[
        str | None,
        filter_option("Of this subscription: id, pattern or a part.", metavar="SUBSCRIPTION"),
        IdOf("subscription"),
    ] = None
    event: Annotated[str | None, filter_option("Of this event.", metavar="ID"), IdOf("event")] = (
        None
    )
    event_type: EventType = None
    answer: Answer = None
    tenant: Tenant = None
    since: Since = None
    until: Until = None

    def members(self) -> dict[str, Any]:
        """Return the given filters under the API's names; a single status is no list."""
        members = _members(self)
        if len(self.status or ()) == 1:
            members["status"] = members["status"][0]
        return members

    def query(self) -> dict[str, Any]:
        """Return the query of a list, which accepts one status. Raises typer.BadParameter for
        more."""
        if len(self.status or ()) > 1:
            raise typer.BadParameter("a list takes one --status")
        return self.members()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Options that select dead letters; a dead letter has to match all of them."""

    endpoint: Endpoint = None
    event_type: EventType = None
    tenant: Tenant = None
    reason: Annotated[str | None, filter_option("With exactly this reason.")] = None
    answer: Answer = None
    since: Since = None
    until: Until = None

    def members(self) -> dict[str, Any]:
        """Return the given filters under the API's names."""
        return _members(self)


def parse_object(text: str, *, option: str) -> dict[str, Any]:
    """Parse the JSON object that `option` was given, as `given_text` reads it, with every digit of
    its numbers. Raises typer.BadParameter."""
    try:
        value = parse(given_text(text, option=option).encode(errors="surrogateescape"))
    except InvalidInput as error:
        raise typer.BadParameter(
            f"it is not JSON: {json_fault(error)}", param_hint=option
        ) from None
    if not isinstance(value, dict):
        raise typer.BadParameter("it is not a JSON object", param_hint=option)
    return value


def json_fault(error: InvalidInput) -> str:
    """Return what is wrong with a JSON text, without the parser's words about a whole body."""
    return error.message.removeprefix("the body is not JSON: ").replace("the body", "it", 1)


def given_text(text: str, *, option: str) -> str:
    """Return the text that `option` was given: itself, standard input for `-`, or a file's for
    `@FILE`. Raises typer.BadParameter."""
    if text == "-" or text.startswith("@"):
        return read_text(Path(text.removeprefix("@")), option=option)
    return text


MappingText = Annotated[
    str | None,
    typer.Option(
        "--mapping",
        metavar="JMESPATH",
        help='An expression that makes the body of the event: "{text: data.title}".',
    ),
]
MappingFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Read the mapping from this file; - is standard input."),
]


def read_mapping(mapping: str | None, file: Path | None) -> str | None:
    """Return the mapping that was given, None for none. Raises typer.BadParameter for two."""
    if file is None:
        return mapping
    if mapping is not None:
        raise typer.BadParameter("give --mapping or --mapping-file, not both")
    return read_text(file, option="--mapping-file").strip()


def read_secret(file: Path, *, option: str = "--secret-file") -> str:
    """Read the secret that `option` names, without the spaces around it. Raises
    typer.BadParameter."""
    return read_text(file, option=option).strip()


def read_text(file: Path, *, option: str) -> str:
    """Read the file that `option` names; `-` reads standard input. Raises typer.BadParameter."""
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(
            f"the file cannot be read: {type(error).__name__}", param_hint=option
        ) from None


def _members(filters: DeliveryFilter | DeadLetterFilter) -> dict[str, Any]:
    """Return the filters that were given, under the API's names."""
    given = {field.name: getattr(filters, field.name) for field in fields(filters)}
    return {
        f"{name}_id" if name in _THINGS else name: value
        for name, value in given.items()
        if value not in (None, [])
    }
