"""Where `listen` begins, and where it has come to: kept in a file where one is named, so that the
next time it goes on from there."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import typer

from hookfast.cli.remote.moment import ago
from hookfast.errors import Misconfigured

_CURSOR = re.compile(r"[A-Za-z0-9_-]{8,120}", re.ASCII)


@dataclass(slots=True)
class Place:
    """A cursor or an event's id to begin behind, or a time to begin at; neither is now."""

    url: str
    file: Path | None = None
    cursor: str | None = None
    since: str | None = None

    @classmethod
    def found(cls, file: Path | None, *, url: str, since: str | None) -> Self:
        """Where the file says; where there is none yet, where `since` says (`5m`, a time, a cursor,
        an event's id). Raises Misconfigured for a file of another service, or that is none, and
        for one that cannot be written: before an event is done with that would not be noted."""
        if file is not None:
            _check_writable(file)
        if file is not None and file.exists():
            return cls(url=url, file=file, cursor=_stored(file, url))
        if since is None:
            place = cls(url=url, file=file)
        elif _is_time(since):
            place = cls(url=url, file=file, since=ago(since))
        elif _CURSOR.fullmatch(since):
            place = cls(url=url, file=file, cursor=since)
        else:
            raise typer.BadParameter(
                f"{since!r} is neither a length of time such as 5m, an RFC 3339 time, an event's "
                "id, nor a cursor",
                param_hint="--since",
            )
        return place

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """What the stream is asked for besides."""
        return () if self.since is None else (("since", self.since),)

    def reached(self, cursor: str) -> None:
        """Everything up to there is done with. A crash while this is written leaves the old file:
        an event may come again, and none is left out."""
        if self.file is None:
            return
        partial = _partial(self.file)
        try:
            partial.write_text(json.dumps({"url": self.url, "cursor": cursor}))
            partial.replace(self.file)
        except OSError as error:
            raise _unwritable(self.file, error) from None


def _check_writable(file: Path) -> None:
    partial = _partial(file)
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise _unwritable(file, error) from None


def _partial(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}")


def _unwritable(file: Path, error: OSError) -> Misconfigured:
    return Misconfigured(f"{file} cannot be written: {error.strerror}")


def _stored(file: Path, url: str) -> str:
    stored: object = None
    with suppress(OSError, ValueError):
        stored = json.loads(file.read_text())
    match stored:
        case {"url": str(other), "cursor": str(cursor)}:
            if other != url:
                raise Misconfigured(f"{file} is of {other}; listening to {url} needs another file")
            return cursor
        case _:
            raise Misconfigured(f"{file} is no file that `listen --resume` wrote")


def _is_time(text: str) -> bool:
    if text.startswith("evt_"):
        return False
    with suppress(typer.BadParameter):
        ago(text)
        return True
    return False
