"""The number of files that this process may have open, of which each connection needs one."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import structlog

_OTHERS: Final = 256
"""For the database, Temporal, requests to receivers, and files."""

log = structlog.get_logger()


def fitting(connections: int) -> int:
    """Return how many connections this process may have open: as many as asked for, if need be with
    a higher limit of open files (the soft one, up to the hard one); else fewer, with a warning."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = connections + _OTHERS
    if soft == unlimited or soft >= wanted:
        return connections
    raised = wanted if hard == unlimited else min(wanted, hard)
    with suppress(ValueError, OSError):  # macOS has another limit, below what it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    if soft >= wanted:
        return connections
    fit = max(soft - _OTHERS, soft // 2)
    log.warning(
        "Fewer connections are allowed than HOOKFAST_MAX_CONNECTIONS, because this process may "
        "open too few files; raise its limit (`ulimit -n`).",
        limit=fit,
    )
    return fit
