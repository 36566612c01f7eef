"""Logging with structlog, for Hookfast and its libraries: readable on a terminal, else JSON.

A line is written by the thread that logs it. Most deliveries have three lines, so that their cost
counts (ADR 25): our own lines skip the standard library's logging, which takes three times as long,
and orjson writes JSON ten times as fast as `json`.
"""

from __future__ import annotations

import logging
import sys
from typing import BinaryIO, Literal, Protocol

import orjson
import structlog
from opentelemetry import trace
from structlog.typing import EventDict, Processor

from hookfast.logs.kind import Kind

Shown = Literal["all", "failures", "none"]
"""Which of the lines that come with every delivery or request are written."""


class LogSettings(Protocol):
    """The format and level of log lines, as the settings or a command's options give them."""

    @property
    def log_format(self) -> str: ...
    @property
    def log_level(self) -> str: ...


def configure_logging(
    settings: LogSettings,
    *,
    process: str,
    attempts: Shown = "all",
    requests: Shown = "all",
    output: BinaryIO | None = None,
) -> None:
    """Set up logging for this process, whose name (e.g. `worker`) is in every line. Lines go to
    standard error, unless there is another `output`. `attempts` and `requests` say which lines of
    attempts and ended deliveries, and of HTTP requests, are written."""
    console = settings.log_format == "console" or (
        settings.log_format == "auto" and output is None and sys.stderr.isatty()
    )

    def add_process(_: object, __: str, line: EventDict) -> EventDict:
        line.setdefault("process", process)  # not a context variable: threads would lack it
        return line

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_process,
        add_trace,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # plain tracebacks: the fancy ones print every frame's variables, secrets and bodies included
    renderer: list[Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(_to_json),
        ]
    )
    level = getattr(logging, settings.log_level.upper())
    write = _Output(sys.stderr.buffer if output is None else output)
    structlog.configure(
        processors=[_Quiet(attempts, requests), *shared, *renderer],
        logger_factory=lambda *_: write,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = _Handler(write)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *renderer,
                lambda _, __, line: line.decode() if isinstance(line, bytes) else line,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for chatty in ("uvicorn.access", "httpcore2", "httpx2", "asyncio", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def add_trace(_: object, __: str, line: EventDict) -> EventDict:
    """Add the ids of the current trace and span to a log line, if there is a span. A line of an
    attempt has its trace already: the recorder writes it, outside of the span."""
    if "trace_id" not in line:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            line["trace_id"] = f"{context.trace_id:032x}"
            line["span_id"] = f"{context.span_id:016x}"
    return line


class _Quiet:
    """Drops the lines of successes, or all, of what happens with every delivery or request."""

    def __init__(self, attempts: Shown, requests: Shown) -> None:
        self._attempts = attempts
        self._requests = requests

    def __call__(self, _: object, __: str, line: EventDict) -> EventDict:
        match line.get("kind"):
            case Kind.DELIVERY_ENDED if self._attempts != "all":
                dropped = line["status"] == "delivered" and line["attempts"] == 1
            case Kind.ATTEMPT_ENDED if self._attempts != "all":
                dropped = self._attempts == "none" or line["result"] == "success"
            case (
                # of endpoints with limits, or in order, without a fault
                Kind.DELIVERY_LIMITED | Kind.DELIVERY_QUEUED | Kind.DELIVERY_MOVED_UP
            ) if self._attempts != "all":
                dropped = True
            case Kind.REQUEST if self._requests != "all":
                dropped = self._requests == "none" or line.get("status_code", 400) < 400
            case _:
                return line
        if dropped:
            raise structlog.DropEvent
        return line


class _Output:
    """Writes lines. A line that cannot be written, on a full disk or into a closed pipe, is lost:
    it must not fail what it reports."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, line: str | bytes) -> None:
        text = line if isinstance(line, bytes) else line.encode("utf-8", "replace")
        try:
            self._file.write(text + b"\n")
            self._file.flush()
        except (OSError, ValueError):  # ValueError: the file is closed
            pass

    # the names under which structlog calls it, one per level
    debug = info = warning = error = critical = exception = write


class _Handler(logging.Handler):
    """Passes the lines of libraries on to the same output."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        self._output.write(self.format(record))


def _to_json(line: EventDict, **_: object) -> bytes:
    try:
        return orjson.dumps(line, default=str)
    except TypeError:  # text that is not Unicode, such as the name of a file
        return orjson.dumps({name: _printable(value) for name, value in line.items()})


def _printable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value if isinstance(value, int | float) else str(value)
