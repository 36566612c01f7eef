"""The log lines of activities that fail because the database is away."""

from __future__ import annotations

import logging

from hookfast.errors import Unavailable
from hookfast.outage_log import DATABASE
from hookfast.storage.database.availability import is_away


class FailedForDatabase(logging.Filter):
    """Counts activities that failed because the database was away: Temporal repeats them, and a
    traceback for each would hide everything else. With log level `debug` they are written."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None or not (is_away(error) or isinstance(error, Unavailable)):
            return True
        DATABASE.failed("Activities fail and are repeated.", error=type(error).__name__)
        return logging.getLogger().isEnabledFor(logging.DEBUG)
