"""Logging with structlog, for Hookfast and its libraries: readable on a terminal, else JSON."""

from __future__ import annotations

import logging
import sys
from typing import Protocol

import structlog
from opentelemetry import trace
from structlog.typing import EventDict, Processor


class LogSettings(Protocol):
    """The format and level of log lines, as the settings or a command's options give them."""

    @property
    def log_format(self) -> str: ...
    @property
    def log_level(self) -> str: ...


def add_trace(_: object, __: str, line: EventDict) -> EventDict:
    """Add the ids of the current trace and span to a log line, if there is a span."""
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        line["trace_id"] = f"{context.trace_id:032x}"
        line["span_id"] = f"{context.span_id:016x}"
    return line


def configure_logging(settings: LogSettings, *, process: str) -> None:
    """Set up logging for this process, whose name (e.g. `worker`) is in every line."""
    console = settings.log_format == "console" or (
        settings.log_format == "auto" and sys.stderr.isatty()
    )

    def add_process(_: object, __: str, line: EventDict) -> EventDict:
        line.setdefault("process", process)  # not a context variable: threads would lack it
        return line

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_process,
        add_trace,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # plain tracebacks: the fancy ones print every frame's variables, secrets and bodies included
    renderer: list[Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    level = getattr(logging, settings.log_level.upper())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for chatty in ("uvicorn.access", "httpcore2", "httpx2", "asyncio", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
