"""`hookfast find`: what an id, a key, a URL or a name belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.remote import Remote


def find_command(
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
    from hookfast.cli.remote.screen import Column, Columns, print_note, print_table

    response = remote.api.get("/search", {"q": " ".join(text), "tenant_id": tenant})
    hits = response.value["data"]
    if not remote.printed_json(response):
        columns: Columns = {
            "kind": Column(value=_kind),
            "id": Column(value="id", priority=0),
            "what": Column(value=_what, least=16),
        }
        print_table(hits, columns, if_empty=response.value["hint"] or "")
        if len(hits) == 1:
            print_note(f"On the dashboard: {remote.api.url}{hits[0]['page']}")
    if not hits:
        raise typer.Exit(1)


def _kind(hit: Mapping[str, Any]) -> str:
    return str(hit["kind"]).replace("_", " ")


def _what(hit: Mapping[str, Any]) -> str:
    return ", ".join(text for text in (hit["title"], hit["detail"]) if text)
