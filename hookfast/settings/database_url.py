"""The database URL: which kind of database it names, and the file of a `sqlite:///` URL.

A URL has its own special characters, which file names may have too. So `sqlite_url` quotes every
path, and `sqlite_file` refuses what could be read in two ways. `postgresql_url` reads the rest.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote, unquote_to_bytes

from hookfast.errors import Misconfigured

Kind = Literal["sqlite", "postgresql"]

VARIABLE: Final = "HOOKFAST_DATABASE_URL"
_SCHEMES: Final[dict[str, Kind]] = {
    "postgresql": "postgresql",
    "postgresql+asyncpg": "postgresql",
    "postgres": "postgresql",
    "postgres+asyncpg": "postgresql",
    "sqlite": "sqlite",
    "sqlite+aiosqlite": "sqlite",
}
_INVALID_QUOTE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


def kind_of(url: str) -> Kind:
    """Return which kind of database a URL names. Raises Misconfigured."""
    kind = _SCHEMES.get(url.partition("://")[0])
    if kind is None and url[:1] in ("'", '"', " "):
        raise unreadable(
            "it begins with a quote or a blank; remove it, and the one at the end (Docker's "
            "--env-file does not remove quotes)"
        )
    if kind is None:
        raise unreadable(
            "it begins with neither postgresql:// nor sqlite:///; use "
            "postgresql://user:password@host:5432/database or sqlite:///file"
        )
    return kind


def sqlite_url(file: Path) -> str:
    """Return the URL that names this file, whatever characters its path has."""
    return f"sqlite:///{quote(os.fsencode(file.absolute()))}"


def sqlite_file(url: str) -> Path:
    """Return the absolute path of the file that a `sqlite:///` URL names. Raises Misconfigured."""
    host, slash, path = url.partition("://")[2].partition("/")
    if host:
        raise unreadable(
            "sqlite:// is followed by a host, which SQLite does not have; write sqlite:///file for "
            "a relative path, sqlite:////folder/file for an absolute one"
        )
    if not slash or path in ("", ":memory:", "file::memory:"):
        raise Misconfigured(f"{VARIABLE} must name a SQLite file, not memory: write sqlite:///file")
    if path.startswith("~"):
        raise unreadable("~ does not stand for a folder here; write the whole path")
    if "?" in path:
        raise unreadable(
            "a SQLite file has no options; remove them, or write ? as %3F if it belongs to the name"
        )
    check_quoting(path)
    return Path(os.fsdecode(unquote_to_bytes(path))).absolute()


def check_quoting(text: str) -> None:
    """Raise Misconfigured if a part of a URL has characters with which it can be read in two
    ways."""
    if "#" in text:
        raise unreadable("it has a # (a fragment); write # as %23 if it belongs to a name")
    if _INVALID_QUOTE.search(text):
        raise unreadable("it has a % that does not begin %XX; write % as %25")
    if "%00" in text or "\0" in text:
        raise unreadable("it has a NUL character, which no name may have; remove it")


def unreadable(why: str) -> Misconfigured:
    """Return the error of an invalid URL. `why` quotes no part of it, which may be a password."""
    return Misconfigured(f"{VARIABLE} cannot be read: {why}.")
