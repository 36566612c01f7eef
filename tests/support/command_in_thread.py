"""Commands of the CLI that run in a thread of the test process, with their own standard streams.

A forked process takes three times the CPU. What a command does to its process (signals, its exit,
its logging, the encoding of its output) is tested with `tests.support.forked_command`.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rich.console import Console

from hookfast.cli import app, errors_as_sentences
from hookfast.cli.remote.api import Api
from hookfast.settings.settings import load_settings
from tests.support.waiting import PATIENCE

_ONE_AT_A_TIME = threading.Lock()
_OF_THREAD = threading.local()


async def run_in_thread(
    arguments: tuple[str, ...], *, folder: Path, env: dict[str, str], stdin: bytes
) -> tuple[int, str, str]:
    """Run `hookfast <arguments>` in `folder`; return its exit code, output and error output."""
    async with asyncio.timeout(PATIENCE):
        return await asyncio.to_thread(_run, arguments, folder, env, stdin)


def _run(
    arguments: tuple[str, ...], folder: Path, env: dict[str, str], stdin: bytes
) -> tuple[int, str, str]:
    streams = _OF_THREAD.__dict__
    streams.update(stdin=_stream(stdin), stdout=_stream(), stderr=_stream())
    with _ONE_AT_A_TIME, _environment(env), chdir(folder), _own_streams(), _closed_connections():
        code = _exit_code(arguments)
    return code, _text(streams["stdout"]), _text(streams["stderr"])


def _exit_code(arguments: tuple[str, ...]) -> int:
    with pytest.raises(SystemExit) as ended, errors_as_sentences():
        app(arguments, prog_name="hookfast")
    assert isinstance(ended.value.code, int)
    return ended.value.code


@contextmanager
def _environment(env: dict[str, str]) -> Iterator[None]:
    """Replace Python's environment and not the process's, which C code of other threads reads
    without a lock. A command reads its settings from it, not the last one's."""
    load_settings.cache_clear()
    try:
        with mock.patch.object(os, "environ", env), mock.patch.object(Console, "_environ", env):
            yield
    finally:
        load_settings.cache_clear()


class _Stream:
    """A standard stream: in a command's thread the command's own, elsewhere the test's, whose
    server logs meanwhile. It lives as long as the process: `print` in another thread uses the
    `sys.stdout` that it found without holding it, and CPython crashed when that was gone."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.tests: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(_OF_THREAD.__dict__.get(self._name, self.tests), name)

    def __iter__(self) -> Iterator[str]:
        return iter(_OF_THREAD.__dict__[self._name])


_STREAMS = {name: _Stream(name) for name in ("stdin", "stdout", "stderr")}


@contextmanager
def _own_streams() -> Iterator[None]:
    for name, stream in _STREAMS.items():
        stream.tests = getattr(sys, name)
    with mock.patch.multiple(sys, **_STREAMS):
        yield


@contextmanager
def _closed_connections() -> Iterator[None]:
    """Close the connections of the commands that run meanwhile: a process's end does it."""
    opened: list[Api] = []
    original = Api.__init__

    def remembering(api: Api, *arguments: Any, **options: Any) -> None:
        original(api, *arguments, **options)
        opened.append(api)

    try:
        with mock.patch.object(Api, "__init__", remembering):
            yield
    finally:
        for api in opened:
            api.close()


def _stream(content: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
