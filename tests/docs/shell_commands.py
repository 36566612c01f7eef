"""The commands that the shell blocks of a page would run, as bash itself reads them.

bash runs the blocks with functions in place of programs, which note their arguments. So nothing is
executed, and quoting, line ends and loops mean the same as in a reader's shell.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.docs.fenced import blocks
from tests.support.waiting import PATIENCE

_PROLOGUE = r"""
note() { printf '%s\0' "$@" $'\1' >&3; }  # in one write: both sides of a pipe may note
hookfast() { note hookfast "$@"; }
curl() { note curl "$@"; }
command_not_found_handle() { note "${1##*/}"; }
export PATH=/nowhere HOOKFAST_URL=http://127.0.0.1:8080 HOOKFAST_API_KEY=hf_key
TENANT=tnt_… ENDPOINT=ep_… DELIVERY=dlv_… EVENT=evt_… SUPPORT=ep_…
field() { :; }
exec 3>noted
"""
_ID = re.compile(r"^(?:TENANT|ENDPOINT|DELIVERY|EVENT|SUPPORT)=\$\(", re.MULTILINE)


def shell_commands(page: Path, folder: Path) -> list[list[str]]:
    """Return the words of every command, the program first. Of programs other than `hookfast` and
    `curl` only the name is known. The blocks write their files below `folder`."""
    shell = [block for block in blocks(page) if block.language == "sh"]
    if not shell:
        return []
    (folder / "var/tour").mkdir(parents=True, exist_ok=True)
    # one shell for the page: functions of one block are used in the next
    script = "\n".join(_ID.sub("IGNORED=$(", block.text) for block in shell)
    subprocess.run(
        ["/bin/bash", "-c", _PROLOGUE + script.replace(".venv/bin/", "")],
        cwd=folder,
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    commands = (folder / "noted").read_text().split("\1\0")[:-1]
    assert commands, "the page has no commands"
    return [command.split("\0")[:-1] for command in commands]
