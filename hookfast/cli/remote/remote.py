"""What every command on a running Hookfast takes: where it is, the key, and how to print."""

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
    from hookfast.cli.remote.client import Answer, Api, Query

_DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(slots=True)
class Remote:
    """A running Hookfast. `api` connects to it; data goes to standard output, all else to standard
    error."""

    url: Annotated[
        str | None,
        typer.Option(
            envvar="HOOKFAST_URL",
            help="Where it is; default: this machine, at HOOKFAST_PORT.",
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
        """The client. Raises Misconfigured where there is no key."""
        if self._api is None:
            from hookfast.cli.remote.client import Api

            key, origin = _key(self.key_file)
            self._api = Api(self.url or _local_url(), key=key, key_origin=origin)
        api: Api = self._api
        return api

    def print_json(self, answer: Answer) -> None:
        """Print the answer as it came."""
        sys.stdout.write(f"{answer.text.rstrip()}\n")
        sys.stdout.flush()

    def rows(self, path: str, query: Query, *, limit: int) -> list[dict[str, Any]] | None:
        """The first `limit` rows of a list; None when they were printed as JSON already."""
        pages = list(self.api.pages(path, query, limit=limit))
        rows = [row for page in pages for row in page.value["data"]]
        if not self.as_json:
            if pages[-1].value["next_cursor"] is not None:
                typer.echo("There are more; --limit shows them.", err=True)
            return rows
        if len(pages) == 1:
            self.print_json(pages[0])
        else:
            self.print_rows(rows, pages[-1].value["next_cursor"])
        return None

    def print_rows(self, rows: list[dict[str, Any]], next_cursor: str | None = None) -> None:
        """Print rows as the API's JSON for one page."""
        page = {"data": rows, "next_cursor": next_cursor}
        sys.stdout.write(f"{json.dumps(page, ensure_ascii=False)}\n")


def _key(key_file: Path | None) -> tuple[str, str]:
    """The key and where it came from."""
    if key_file is not None:
        try:
            return _checked(key_file.read_text(), str(key_file))
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"the key file {key_file} cannot be read: {error}") from None
    for name in ("HOOKFAST_API_KEY", "HOOKFAST_OPERATOR_KEY"):
        if value := os.environ.get(name):
            return _checked(value, name)
    if file := os.environ.get("HOOKFAST_OPERATOR_KEY_FILE"):  # as in a container of the service
        from hookfast.settings.secret_files import read

        return _checked(read(Path(file), variable="HOOKFAST_OPERATOR_KEY_FILE"), file)
    if Path(".env").is_file():
        from hookfast.cli.console import read_settings

        if (operator_key := read_settings().operator_key) is not None:
            return _checked(operator_key.get_secret_value(), "HOOKFAST_OPERATOR_KEY in .env")
    raise Misconfigured(
        "there is no API key. Set HOOKFAST_API_KEY (or HOOKFAST_OPERATOR_KEY), or name a file "
        "with --key-file. The first operator key was printed when Hookfast started first"
    )


def _checked(key: str, origin: str) -> tuple[str, str]:
    key = key.strip()
    # what a header cannot carry would come back in the client's error message
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise Misconfigured(f"what {origin} holds is not an API key (hf_…)")
    return key, origin


def _local_url() -> str:
    if not Path(".env").is_file() and not {"HOOKFAST_PORT", "HOOKFAST_HOST"} & os.environ.keys():
        return _DEFAULT_URL
    from hookfast.cli.console import read_settings

    settings = read_settings()
    local = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104
    host = local.get(settings.host, settings.host)
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{host}:{settings.port or 8080}"
