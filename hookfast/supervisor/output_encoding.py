"""What the terminal's encoding cannot write, written as JSON escapes it."""

from __future__ import annotations

import codecs
import io
import json
import sys

_NAME = "hookfast.json"


def escape_what_cannot_be_written() -> None:
    """Let standard output write any text where its encoding is not UTF-8 (`LC_ALL` with ISO-8859-1,
    `PYTHONIOENCODING`): an arrow becomes `\\u2192`. JSON stays JSON, and says the same."""
    codecs.register_error(_NAME, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_NAME)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
