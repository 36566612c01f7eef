"""`hookfast openapi`: the API's document, for `docs/openapi.json` and for generators."""

from __future__ import annotations

import json

import typer

from api.app import create_app
from hookfast.cli.console import read_settings


def main() -> None:
    """Print the document."""
    document = create_app(read_settings()).openapi()
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
