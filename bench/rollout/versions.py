"""The versions before this one, from git, and their code unpacked into folders of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from hookfast.version import VERSION

ROOT: Final = Path(__file__).parents[2]
BEFORE_ANY_RELEASE: Final = "5c69799c85969152c343e1d31927d1fd16c4ce76"
"""The commit that counts as the previous version until a version is tagged."""

_TAG = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
_HISTORIES = "tests/replay/histories"


class NoHistory(Exception):
    """This copy has no git history, or only a part of it. The message says what to do."""


def previous_versions() -> list[str]:
    """Return what a rollback from here may go to, newest first: the newest tagged version, and the
    newest one of the minor version before. Before the first tag, one fixed commit.

    Raises NoHistory.
    """
    _require_history()
    here = _git("tag", "--points-at", "HEAD").split()
    tags = [tag for tag in _git("tag", "--merged", "HEAD").split() if _TAG.fullmatch(tag)]
    return of_tags([tag for tag in tags if tag not in here], VERSION) or [BEFORE_ANY_RELEASE]


def of_tags(tags: list[str], version: str) -> list[str]:
    """Choose from these tags what `version` may be rolled back to, newest first."""
    ordered = sorted(tags, key=_numbers, reverse=True)
    minor = _numbers(version)[:2]
    before = [tag for tag in ordered if _numbers(tag)[:2] < minor]
    return list(dict.fromkeys([*ordered[:1], *before[:1]]))


def unpacked(revision: str) -> Path:
    """Return a folder with the code and the saved histories of `revision`, under `var/versions`.

    Raises NoHistory if this copy does not have the revision.
    """
    _require_history()
    try:
        commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
    except subprocess.CalledProcessError:
        raise NoHistory(
            f"This clone does not have {revision}. Run `git fetch --unshallow --tags`."
        ) from None
    folder = ROOT / "var" / "versions" / commit
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        archive = _run("archive", "--format=tar", commit)
        partial = Path(tempfile.mkdtemp(dir=folder.parent))
        subprocess.run(["tar", "-x", "-C", str(partial)], input=archive, check=True)
        try:
            partial.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(partial)
    return folder


def is_shallow() -> bool:
    """Whether this is a clone with only a part of the history."""
    try:
        return _git("rev-parse", "--is-shallow-repository").strip() == "true"
    except (OSError, subprocess.CalledProcessError):
        return False  # it is no clone at all


def histories_of(tree: Path) -> Path:
    """Return the folder of a version's saved workflow histories."""
    return tree / _HISTORIES


def environment_of(tree: Path) -> dict[str, str]:
    """Return the variables with which Python imports the code in this folder, and only that."""
    paths = os.pathsep.join((str(tree), str(tree / "packages" / "client")))
    return {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}


def _numbers(tag: str) -> tuple[int, ...]:
    found = _TAG.match(tag)
    assert found is not None, tag
    return tuple(map(int, found.groups()))


def _require_history() -> None:
    try:
        top = _git("rev-parse", "--show-toplevel").strip()
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        raise NoHistory(
            f"The previous version comes from git, which does not work here: "
            f"{said.decode(errors='replace').strip()}. Use a git clone."
        ) from None
    if Path(top).resolve() != ROOT.resolve():
        raise NoHistory("This copy is not a git clone, so it has no previous version. Use a clone.")


def _git(*arguments: str) -> str:
    return _run(*arguments).decode()


def _run(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True)
    return done.stdout
