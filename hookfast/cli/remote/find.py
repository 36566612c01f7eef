"""`hookfast find`: what an id, a key, a URL or a name belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, Columns, print_note, print_table


def find(remote: Remote, text: str, *, tenant: str | None) -> None:
    """Print what was found. Exits with 1 if nothing was."""
    response = remote.api.get("/search", {"q": text, "tenant_id": tenant})
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
