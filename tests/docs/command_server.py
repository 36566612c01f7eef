"""Runs the `hookfast` commands of the documentation's shell blocks in forks of one process.

The guides have some forty commands, which on a busy machine would spend minutes on importing the
same modules. Each fork runs the real command line, with the arguments, folder and environment of
the shell.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn

_ROOT = Path(__file__).parents[2]
_KEYS = ("HOOKFAST_API_KEY", "HOOKFAST_OPERATOR_KEY")
_PASSED_ON = ("HOOKFAST_URL", *_KEYS, "HOOKFAST_TRIGGER_SECRET")
_FUNCTION = r"""
hookfast() {
  local number code
  exec 9<>/dev/tcp/127.0.0.1/PORT
  printf '%s\0' "$#" "$PWD" VARIABLES "$@" >&9
  read -r number code <&9
  exec 9>&-
  cat "FOLDER/$number.out"
  cat "FOLDER/$number.err" >&2
  return "$code"
}
"""


@contextmanager
def command_server(folder: Path) -> Iterator[str]:
    """Return the text of a shell function `hookfast`, which works while the `with` block runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.docs.command_server", str(folder)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            variables = " ".join(f'"${{{name}-}}"' for name in _PASSED_ON)
            text = _FUNCTION.replace("PORT", port, 1).replace("VARIABLES", variables)
            yield text.replace("FOLDER", str(folder))
        finally:
            process.kill()


def _serve(folder: Path) -> NoReturn:
    import hookfast.cli.remote.deliveries  # the slowest import, done once for all forks

    assert hookfast.cli.remote.deliveries
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    for number in itertools.count():
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as request:
            count = int(_word(request))
            words = [_word(request) for _ in range(1 + len(_PASSED_ON) + count)]
            child = os.fork()
            if child == 0:
                _become(words, folder / str(number))
            _, status = os.waitpid(child, 0)
            connection.sendall(f"{number} {os.waitstatus_to_exitcode(status)}\n".encode())
    raise AssertionError


def _word(stream: BinaryIO) -> str:
    letters = bytearray()
    while letter := stream.read(1).strip(b"\0"):
        letters += letter
    return letters.decode()


def _become(words: list[str], output: Path) -> NoReturn:
    """Replace this process with the command: its folder, environment, streams and arguments."""
    from hookfast.cli import main

    folder, *words = words
    values, arguments = words[: len(_PASSED_ON)], words[len(_PASSED_ON) :]
    os.environ |= {name: value for name, value in zip(_PASSED_ON, values, strict=True) if value}
    os.chdir(folder)
    for number, ending in ((1, "out"), (2, "err")):
        opened = os.open(f"{output}.{ending}", os.O_CREAT | os.O_WRONLY)
        os.dup2(opened, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["hookfast", *arguments]
    main()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
