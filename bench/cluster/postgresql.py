"""A new PostgreSQL server of this system's packages, created as compose's image does it.

Temporal's schema needs the extension `btree_gin`, which the PostgreSQL of the dev dependencies does
not have.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from bench.chaos.database import Postgresql, as_user
from bench.cluster.compose import Compose

HOST: Final = "127.0.0.1"
"""Where all parts of a cluster listen."""
DATA: Final = "pg"
"""Name of the folder of data."""
_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin")
"""Where Debian, Red Hat and Homebrew install it, below `/`."""


class NoPostgresql(Exception):
    """This system has no PostgreSQL server; the message says what to install."""


def new_postgresql(home: Path, compose: Compose, *, port: int, prefix: Sequence[str]) -> Postgresql:
    """Return a new server, not started, with compose's settings and its data in `home`. Raises
    NoPostgresql."""
    programs = _programs()
    user = _user()
    data = home / DATA
    data.mkdir(mode=0o700)
    if user is not None:
        home.chmod(0o711)
        shutil.chown(data, user, pwd.getpwnam(user).pw_gid)
    options = ["--username=postgres", "--auth-local=trust", "--auth-host=scram-sha-256"]
    subprocess.run(
        [*as_user(user), str(programs / "initdb"), "-D", str(data), *options,
         "--encoding=UTF8", "--locale=C.UTF-8", *compose.initdb_options],
        check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return Postgresql(
        data,
        home / "postgresql.log",
        programs=programs,
        user=user,
        prefix=prefix,
        port=port,
        settings=(f"listen_addresses={HOST}", *compose.postgresql_settings),
    )


def newest(folders: Iterable[Path]) -> Path | None:
    """Return the folder with the highest version in its path."""
    return max(folders, key=_version, default=None)


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", str(folder)))


def _programs() -> Path:
    folders = [path for pattern in _FOLDERS for path in Path("/").glob(pattern)]
    found = newest(path for path in folders if (path / "initdb").exists())
    on_path = shutil.which("initdb")
    if found is None and on_path is not None:
        found = Path(on_path).resolve().parent
    if found is None:
        raise NoPostgresql(
            "The cluster needs a PostgreSQL server with the extension btree_gin, which Temporal's "
            "schema uses. On Debian and Ubuntu: apt install postgresql. Its own service need not "
            "run."
        )
    return found


def _user() -> str | None:
    """Return the user as whom PostgreSQL runs, if we are root: it refuses root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
