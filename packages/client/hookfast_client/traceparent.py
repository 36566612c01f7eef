"""The W3C Trace Context header of the current OpenTelemetry span, if there is one."""

from __future__ import annotations

import sys


def current_traceparent() -> str | None:
    """Return `00-<trace id>-<span id>-<flags>`; None without a valid span.

    OpenTelemetry is not imported here: a program in which nothing has imported it has no span.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
