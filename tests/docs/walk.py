"""Follows a page from an empty folder, as its reader would: files, programs and commands, in order.

The comment before a block says what the reader does with it: `file: NAME` is saved under that name,
`terminal: NAME` is a program that runs in a terminal of its own, and other shell blocks are typed
into one shell, from the first to the last.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.docs.fenced import DOCS, ROOT, Block, blocks
from tests.e2e.service_process import environment

FOLLOWED = ("tutorial.md", "coming-from-svix.md", "coming-from-convoy.md", "coming-from-cron.md")
"""The pages that tests/docs/test_tutorial.py follows, each in a folder of its own."""
_CHECKOUT = "~/hookfast"
_SKIPPED = ("var", "node_modules", "build", "dist")


def follow(page: str, folder: Path, ports: dict[str, str], *, patience: float) -> str:
    """Follow the page in the folder, with the ports that it names replaced, and return what its
    commands printed. Raises AssertionError with the output if one of them fails. The output of
    `terminal: NAME` goes to `NAME.log`."""
    script = "\n".join(
        ["set -euo pipefail", *(_typed(block, folder) for block in blocks(DOCS / page))]
    )
    for named, taken in ports.items():
        script = re.sub(rf"\b{named}\b", taken, script)
    programs = Path(sys.executable).parent
    script = script.replace(f"{_CHECKOUT}/.venv/bin", str(programs))
    if _CHECKOUT in script:
        script = script.replace(_CHECKOUT, str(_checkout(folder.parent / "checkout")))
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment()
        | {
            "PATH": f"{environment()['PATH']}:{programs}",
            "PYTHONPATH": "",
            "COLUMNS": "200",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=patience)
        finally:
            with suppress(ProcessLookupError):  # it ended before it started any of its terminals
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output
    return output


def _typed(block: Block, folder: Path) -> str:
    """Return what a reader types for the block."""
    kind, _, name = block.mark.partition(": ")
    if kind == "file":
        return f"cat > {shlex.quote(name)} <<'END_OF_FILE'\n{block.text}END_OF_FILE"
    if block.language != "sh" or kind == "not run":
        return ""
    if kind == "terminal":
        ready = "".join(
            f"\nuntil curl -s -o /dev/null http://127.0.0.1:{port}/; do sleep 0.1; done"
            for port in re.findall(r"(?:--port|\.py) (\d+)", block.text)
        )
        log = shlex.quote(str(folder / f"{name}.log"))
        return f"( {block.text} ) > {log} 2>&1 &{ready}"
    return block.text


def _checkout(copy: Path) -> Path:
    """Copy the repository, as building its packages writes into their folders."""
    for part in ("hookfast/receiver", "packages"):
        shutil.copytree(
            ROOT / part,
            copy / part,
            symlinks=True,
            ignore=shutil.ignore_patterns(*_SKIPPED, "*.egg-info", "__pycache__", "client-js"),
        )
    return copy
