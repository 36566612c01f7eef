"""The end of a service whose stop takes too long."""

from __future__ import annotations

import os
import threading
from datetime import timedelta

import structlog

log = structlog.get_logger()


def end_within(time_left: timedelta) -> None:
    """End this process after this time, if it has not ended by itself. Call it when the process
    begins to stop.

    Whatever a stop waits for may be silent: receivers, Temporal, the database, a collector. Nothing
    is lost by not waiting: what was not recorded is repeated with the same id.
    """

    def end() -> None:
        log.warning("The process did not stop in time and ends now.")
        os._exit(0)

    timer = threading.Timer(time_left.total_seconds(), end)
    timer.daemon = True
    timer.start()
