"""Escapes the characters that the terminal's encoding does not have, in JSON's notation."""

from __future__ import annotations

import codecs
import io
import json
import sys

_NAME = "hookfast.json"


def escape_unencodable_output() -> None:
    """Let standard output write any text if its encoding is not UTF-8 (`LC_ALL` with ISO-8859-1,
    `PYTHONIOENCODING`): an arrow becomes `\\u2192`. JSON stays JSON with the same value."""
    codecs.register_error(_NAME, _escape)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_NAME)


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
