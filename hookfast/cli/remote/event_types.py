"""`hookfast event-types`: the types of events that can be emitted, with their JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import ApiProblem, path_of
from hookfast.cli.remote.bulk import confirm
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import Limit, Yes, parse_object, read_text
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts, print_note, print_text
from hookfast.cli.remote.times import format_distance, format_time
from hookfast.events.schema_example import example_of
from hookfast.strict_json.text import to_text

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="TYPE", help="e.g. order.invoice.paid.")]
Description = Annotated[str | None, typer.Option(help="When it is emitted, in a sentence.")]
Schema = Annotated[
    Path | None,
    typer.Option(
        allow_dash=True,
        metavar="FILE",
        help="File with the JSON Schema that its data must match; - reads it.",
    ),
]


@command(app, "list")
def list_event_types(remote: Remote, limit: Limit = 50) -> None:
    """List event types by name."""
    remote.print_list(
        "/event-types",
        {},
        {
            "name": Column(value="name", priority=0),
            "schema": Column(value=lambda row: row["schema"] is not None, priority=2),
            "updated": Column(value=lambda row: format_distance(row["updated_at"]), priority=3),
            "description": Column(value="description", least=20),
        },
        limit=limit,
        if_empty="There are no event types. Create one with `hookfast event-types create TYPE`.",
    )


@command(app, "show")
def show(remote: Remote, name: Name) -> None:
    """Show an event type, its schema, and an example of its data."""
    response = remote.api.get(path_of("event-types", name))
    if remote.printed_json(response):
        return
    _print(response.value)
    schema = response.value["schema"]
    if schema is not None:
        _print_json("Schema", schema)
    if isinstance(schema, dict) and (example := example_of(schema)) is not None:
        _print_json("Example of its data", example)


@command(app, "create")
def create(
    remote: Remote, name: Name, description: Description = None, schema: Schema = None
) -> None:
    """Create an event type. Without a schema, its data may be any JSON."""
    if _find(remote, name) is not None:
        raise typer.BadParameter(
            f"{name} exists; change it with `hookfast event-types update {name}`"
        )
    _put(remote, name, {"description": description or "", "schema": _read(schema)})


@command(app, "update")
def update(
    remote: Remote,
    name: Name,
    description: Description = None,
    schema: Schema = None,
    no_schema: Annotated[
        bool, typer.Option("--no-schema", help="Accept any data from now on.")
    ] = False,
) -> None:
    """Change an event type. Events that were emitted before stay as they are."""
    if schema is not None and no_schema:
        raise typer.BadParameter("give --schema or --no-schema, not both")
    if schema is None and description is None and not no_schema:
        raise typer.BadParameter("give --description, --schema or --no-schema")
    current = remote.api.get(path_of("event-types", name)).value
    form = {"description": current["description"], "schema": current["schema"]}
    if description is not None:
        form["description"] = description
    if schema is not None or no_schema:
        form["schema"] = _read(schema)
    _put(remote, name, form)


@command(app, "delete")
def delete(remote: Remote, name: Name, yes: Yes = False) -> None:
    """Delete an event type: new events of it are rejected. Past ones stay, and their deliveries."""
    if not yes:
        remote.api.get(path_of("event-types", name))
        confirm(f"Delete {name}?")
    remote.api.delete(path_of("event-types", name))
    print_note(f"{name} is deleted.")


def _find(remote: Remote, name: str) -> Mapping[str, Any] | None:
    """Return the event type, None if there is none of this name."""
    try:
        found: Mapping[str, Any] = remote.api.get(path_of("event-types", name)).value
    except ApiProblem as problem:
        if problem.problem.status == 404:
            return None
        raise
    return found


def _read(schema: Path | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    return parse_object(read_text(schema, option="--schema"), option="--schema")


def _put(remote: Remote, name: str, form: Mapping[str, Any]) -> None:
    response = remote.api.put(path_of("event-types", name), form)
    if not remote.printed_json(response):
        _print(response.value)


def _print(event_type: Mapping[str, Any]) -> None:
    print_facts(
        {
            "event type": event_type["name"],
            "description": event_type["description"] or None,
            "schema": "none: its data may be any JSON" if event_type["schema"] is None else None,
            "created": format_time(event_type["created_at"]),
            "updated": format_time(event_type["updated_at"]),
        }
    )


def _print_json(heading: str, value: Any) -> None:
    typer.echo(f"\n{heading}:")
    print_text(to_text(value, layout="indented"))
