"""The event loop, the garbage collector, the files and the end of a process."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import secrets
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TypeVar

_Result = TypeVar("_Result")
_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h
_NEW_OBJECTS = 10_000  # more than those of the requests or deliveries in progress at one time


def new_process_id() -> str:
    """Return an id for this process that no other one has: `host-pid-random`."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def process_name() -> str:
    """Return `pid@host`, by which Temporal and PostgreSQL know this process."""
    return f"{os.getpid()}@{socket.gethostname()}"


def name_of(process_id: str) -> str | None:
    """Return the `process_name` of the process with this id; None if it is no such id."""
    host, _, rest = process_id.rpartition("-")[0].rpartition("-")
    return f"{rest}@{host}" if host and rest.isdecimal() else None


def keep_files_private() -> None:
    """Let only this user read the files that this process and its children create from now on,
    such as the embedded Temporal's database: its folder may be one that others can read."""
    os.umask(0o077)


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop if it is installed, else None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Import modules in this block without garbage collections, now and later, of what they create.

    It lives as long as the process, and of the CPU time in which the API or a worker starts, a
    fifth went into visiting it again and again. Only a hundredth of it is garbage.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def freeze_startup() -> None:
    """Exclude all objects that exist now from later garbage collections, and have these begin
    later. Call this once, when the process is ready to work.

    Imports create some 170,000 objects that live as long as the process. A full collection visits
    them all and blocks for 40 ms; without them it takes microseconds.

    By default, 700 new objects are followed by a collection, which are the requests of a few
    milliseconds: it visits what will be free without it. This took 10 % of the API's CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)


def return_freed_blocks(of: int) -> None:
    """Have every freed block of so many bytes or more go back to the system at once, which costs
    some microseconds for each. Call this at the start of a process that handles large bodies.

    By default glibc keeps blocks as large as the largest that was freed so far, up to 32 MiB, in
    each thread's arena: a worker that sends bodies of 5 MB grew by 46 MiB more. Other C libraries
    have no such function, and need none.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, of)


def run_async(main: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine as `asyncio.run` does, without waiting at the end for the loop's threads. One
    of them may be asking a name server that is silent, long after its caller has given up."""
    with asyncio.Runner(loop_factory=_loop_with_unjoined_threads) as runner:
        return runner.run(main)


def _loop_with_unjoined_threads() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_UnjoinedThreads(thread_name_prefix="asyncio"))
    return loop


class _UnjoinedThreads(ThreadPoolExecutor):
    """Threads whose end nobody waits for."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def run_and_end(command: Callable[[], None]) -> NoReturn:
    """Run a command and end this process with its exit code, without Python's finalisation.

    The finalisation waits for ever for threads of Temporal's client if a request was given up just
    before (measured: 8 of 40 processes hung, 9 others printed a crash of such a thread), and for
    every thread that a name server or a file system blocks. Nothing of ours relies on it: commands
    close what they open. The output is flushed here; the exit code is 1 if that fails.
    """
    code = 0
    try:
        command()
    except SystemExit as ended:
        code = _exit_code(ended)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if not _flush() and code == 0:
        code = 1
    os._exit(code)


def _exit_code(ended: SystemExit) -> int:
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)
    return 1


def _flush() -> bool:
    """Write what the standard streams hold. Return whether that worked."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return False  # the reader, such as `head`, has what it wanted
    except OSError as error:
        print(f"hookfast: the output cannot be written: {error.strerror}", file=sys.stderr)
        return False
    return True
