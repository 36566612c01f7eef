"""The options that every command on a running Hookfast takes: its URL, the key, and `--json`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookfast.errors import Misconfigured

if TYPE_CHECKING:
    from hookfast.cli.remote.client import Api, ApiResponse, Query
    from hookfast.cli.remote.screen import Columns

_DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(slots=True)
class Remote:
    """A running Hookfast. `api` connects to it; data is printed on standard output, everything else
    on standard error."""

    url: Annotated[
        str | None,
        typer.Option(
            envvar="HOOKFAST_URL",
            help="URL of Hookfast; default: this machine, at HOOKFAST_PORT.",
            rich_help_panel="Connection",
        ),
    ] = None
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
    _api: Any = field(default=None, init=False, repr=False)  # Api, imported late

    @property
    def api(self) -> Api:
        """The client. Raises Misconfigured when no key is given."""
        if self._api is None:
            from hookfast.cli.remote.client import Api

            key, origin = _find_key(self.key_file)
            self._api = Api(self.url or _local_url(), key=key, key_origin=origin)
        api: Api = self._api
        return api

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
        wide: str = "",
    ) -> None:
        """Print the first `limit` rows of a list, as a table or as the JSON of one page."""
        pages = list(self.api.pages(path, query, limit=limit))
        rows = [row for page in pages for row in page.value["data"]]
        next_cursor = pages[-1].value["next_cursor"]
        if not self.as_json:
            from hookfast.cli.remote.screen import print_table

            if next_cursor is not None:
                typer.echo("There are more; --limit shows them.", err=True)
            print_table(rows, columns, if_empty=if_empty, wide=wide)
        elif len(pages) == 1:
            self.printed_json(pages[0])
        else:
            print_page(rows, next_cursor)


def print_page(rows: list[dict[str, Any]], next_cursor: str | None = None) -> None:
    """Print rows as the API's JSON of one page."""
    page = {"data": rows, "next_cursor": next_cursor}
    sys.stdout.write(f"{json.dumps(page, ensure_ascii=False)}\n")


def _find_key(key_file: Path | None) -> tuple[str, str]:
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


def _local_url() -> str:
    if not Path(".env").is_file() and not {"HOOKFAST_PORT", "HOOKFAST_HOST"} & os.environ.keys():
        return _DEFAULT_URL
    from hookfast.cli.console import read_settings
    from hookfast.settings.local_url import local_url

    settings = read_settings()
    return local_url(settings.host, settings.port or 8080)
