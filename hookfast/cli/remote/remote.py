"""The options that every command on a running Hookfast takes: its URL, the key, `--json` and
`--wide`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookfast.errors import Misconfigured
from hookfast.strict_json.text import to_text

if TYPE_CHECKING:
    from hookfast.cli.remote.api import Api, ApiResponse, Query
    from hookfast.cli.remote.id_of import IdOf
    from hookfast.cli.remote.names import Names
    from hookfast.cli.remote.screen import Columns, Row

_DEFAULT_URL = "http://127.0.0.1:8080"
_LONG_NAME = 40


Url = Annotated[
    str | None,
    typer.Option(
        envvar="HOOKFAST_URL",
        help="URL of Hookfast; default: this machine, at HOOKFAST_PORT.",
        rich_help_panel="Connection",
    ),
]


@dataclass
class Remote:
    """A running Hookfast. `api` connects to it; data is printed on standard output, everything else
    on standard error."""

    url: Url = None
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the API key. Or set HOOKFAST_API_KEY or HOOKFAST_OPERATOR_KEY; there "
            "is no option for the key itself, which everyone on the machine could see.",
            rich_help_panel="Connection",
        ),
    ] = None
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the API's JSON and nothing else.")
    ] = False
    wide: Annotated[
        bool,
        typer.Option(
            "--wide",
            help="Show a terminal what a pipe gets: every column, nothing shortened, ids and not "
            "names.",
        ),
    ] = False

    @cached_property
    def api(self) -> Api:
        """The client. Raises Misconfigured when no key is given."""
        from hookfast.cli.remote.api import Api

        key, origin = find_key(self.key_file)
        return Api(self.url or local_url_of_api(), key=key, key_origin=origin)

    def printed_json(self, response: ApiResponse) -> bool:
        """With `--json`, print the response exactly as it came and return True."""
        if self.as_json:
            sys.stdout.write(f"{response.text.rstrip()}\n")
            sys.stdout.flush()
        return self.as_json

    def print_list(
        self,
        path: str,
        query: Query,
        columns: Columns,
        *,
        limit: int,
        if_empty: str,
    ) -> None:
        """Print the first `limit` rows of a list, as a table or as the JSON of one page."""
        pages = list(self.api.pages(path, query, limit=limit))
        rows = [row for page in pages for row in page.value["data"]]
        next_cursor = pages[-1].value["next_cursor"]
        if not self.as_json:
            if next_cursor is not None:
                typer.echo("There are more; --limit shows them.", err=True)
            self.print_table(rows, columns, if_empty=if_empty)
        elif len(pages) == 1:
            self.printed_json(pages[0])
        else:
            print_page(rows, next_cursor)

    def print_table(self, rows: Sequence[Row], columns: Columns, *, if_empty: str) -> None:
        """Print rows as a table, on a terminal with names in place of ids."""
        from hookfast.cli.remote.screen import Column, print_table

        has_ids = any(isinstance(one, Column) and one.noun for one in columns.values())
        if has_ids and rows and self._shows_names:
            columns = self._name_lookup.in_columns(rows, columns)
        print_table(rows, columns, if_empty=if_empty, whole=self.wide)

    def named(self, noun: str, id_: str | None) -> str | None:
        """Return an id with the name of what it belongs to, if there is one and a terminal shows
        it; None for None."""
        if id_ is None or not self._shows_names:
            return id_
        from hookfast.cli.remote.screen import shorten

        name = self._name_lookup.of(noun, [id_]).get(id_)
        return id_ if name is None else f"{shorten(name, _LONG_NAME)} ({id_})"

    def resolve_ids(self, values: dict[str, Any], ids: Mapping[str, IdOf]) -> None:
        """Replace what a person gave in place of these ids, such as a name or a URL, by the id.
        Raises typer.BadParameter if nothing or more than one thing matches."""
        from hookfast.cli.remote.names import resolve

        tenant_id: str | None = None
        for name, mark in sorted(ids.items(), key=lambda item: item[1].noun != "tenant"):
            given = values[name]
            if given is None:
                continue
            found = [
                resolve(lambda: self.api, mark, text, tenant_id=tenant_id)
                for text in (given if isinstance(given, list) else [given])
            ]
            values[name] = found if isinstance(given, list) else found[0]
            if mark.noun == "tenant":
                tenant_id = found[0]

    @property
    def _shows_names(self) -> bool:
        from hookfast.cli.remote.screen import terminal_width

        return not self.wide and terminal_width() is not None

    @cached_property
    def _name_lookup(self) -> Names:
        from hookfast.cli.remote.names import Names

        return Names(self.api)


def print_page(rows: list[dict[str, Any]], next_cursor: str | None = None) -> None:
    """Print rows as the API's JSON of one page."""
    page = {"data": rows, "next_cursor": next_cursor}
    sys.stdout.write(f"{to_text(page, layout='spaced')}\n")


def find_key(key_file: Path | None) -> tuple[str, str]:
    """Return the API key, and where it was found. Raises Misconfigured."""
    if key_file is not None:
        try:
            return _checked_key(key_file.read_text(), str(key_file))
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"the key file {key_file} cannot be read: {error}") from None
    for name in ("HOOKFAST_API_KEY", "HOOKFAST_OPERATOR_KEY"):
        if value := os.environ.get(name):
            return _checked_key(value, name)
    if file := os.environ.get("HOOKFAST_OPERATOR_KEY_FILE"):  # as in a container of the service
        from hookfast.settings.secret_files import read

        return _checked_key(read(Path(file), variable="HOOKFAST_OPERATOR_KEY_FILE"), file)
    if Path(".env").is_file():
        from hookfast.cli.console import read_settings

        if (operator_key := read_settings().operator_key) is not None:
            return _checked_key(operator_key.get_secret_value(), "HOOKFAST_OPERATOR_KEY in .env")
    raise Misconfigured(
        "there is no API key. Set HOOKFAST_API_KEY (or HOOKFAST_OPERATOR_KEY), or name a file "
        "with --key-file. The first operator key was printed when Hookfast started first"
    )


def _checked_key(key: str, origin: str) -> tuple[str, str]:
    key = key.strip()
    # the error message of the HTTP client would quote a header that cannot be sent
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise Misconfigured(f"the content of {origin} is not an API key (hf_…)")
    return key, origin


def local_url_of_api() -> str:
    """Return the URL of the Hookfast of this machine, where its settings say that it listens."""
    if not Path(".env").is_file() and not {"HOOKFAST_PORT", "HOOKFAST_HOST"} & os.environ.keys():
        return _DEFAULT_URL
    from hookfast.cli.console import read_settings
    from hookfast.settings.local_url import local_url

    settings = read_settings()
    return local_url(settings.host, settings.port or 8080)
