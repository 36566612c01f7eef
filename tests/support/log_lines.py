"""Checks of log lines against their schema, and for what must never be in one. `tests/conftest.py`
checks every line that a test logs; `check_file` those of other processes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from structlog.typing import EventDict

from hookfast.endpoints.short_url import short_url

LEVELS = {"debug", "info", "warning", "error", "critical"}
PRIVATE = {
    "an API key": re.compile(r"\bhf_[A-Za-z0-9_-]{16}"),
    "a signing secret": re.compile(r"\bwhsec_[A-Za-z0-9+/]{8}|\bwhsk_[A-Za-z0-9+/]{8}"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
    "credentials": re.compile(r"\b(?:Bearer|Basic) [A-Za-z0-9._~+/-]{8}"),
    "a password in a URL": re.compile(r"://[^/\s:@]*:[^/\s@]+@"),
    "a URL with a path or query": re.compile(r"https?://[^\s/?#\"']+(?:/[^\s\"')]|[?#])"),
}
_DOCUMENTATION = re.compile(r"https://(?:docs\.python\.org|sqlalche\.me|errors\.pydantic\.dev)/\S*")
"""Libraries link to their documentation in tracebacks."""
_ENDPOINT_URL = re.compile(r'"endpoint_url": ?("[^"]*")')
"""The only field with a URL of a receiver, in its short form."""
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "log-schema.json").read_text())
ALWAYS: dict[str, list[str]] = {
    one["if"]["properties"]["kind"]["const"]: one["then"]["required"] for one in SCHEMA["allOf"]
}
"""The fields that each line of a kind has."""
_VALIDATOR = Draft202012Validator(SCHEMA)
found: list[str] = []
"""The faults of the lines that were logged since the list was last emptied."""


def _without_short_form(field: re.Match[str]) -> str:
    url = json.loads(field[1])
    return "" if url == short_url(url) else field[0]


def privacy_faults(text: str) -> Iterator[str]:
    """Yield what the text of a line must not have."""
    text = _ENDPOINT_URL.sub(_without_short_form, _DOCUMENTATION.sub("", text))
    for name, pattern in PRIVATE.items():
        if pattern.search(text):
            yield f"{name} in a log line: {text[:2000]}"


def schema_faults(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a line, as a log shipper reads it, differs from the schema."""
    for error in _VALIDATOR.iter_errors(line):
        yield f"{error.message} in {line}"


def check_logged(_: object, level: str, line: EventDict) -> EventDict:
    """Check a line that a test logs: a structlog processor, which must not raise, because the code
    that logs would then take another path than it does in production."""
    given = {name: value for name, value in line.items() if name != "exc_info"}
    if unknown := given.keys() - SCHEMA["properties"].keys():
        found.append(f"fields without a description: {sorted(unknown)} in {given}")
    if (kind := given.get("kind")) is not None:
        missing = set(ALWAYS[kind]) - given.keys()
        if missing:
            found.append(f"{kind} lacks {sorted(missing)}: {given}")
        if level != ("warning" if kind.startswith("dependency.") else "info"):
            found.append(f"{kind} is logged at {level}")
    found.extend(privacy_faults(json.dumps(given, default=str)))
    return line


def lines_of(text: str) -> list[dict[str, Any]]:
    """Return our lines in what processes wrote. Temporal writes lines of its own form."""
    lines = [json.loads(one) for one in text.splitlines() if one.startswith("{")]
    return [line for line in lines if "process" in line]


def check_file(log: Path) -> None:
    """Check every line that processes wrote to a file."""
    text = log.read_text(errors="replace")
    faults = [fault for line in lines_of(text) for fault in schema_faults(line)]
    for one in text.splitlines():
        if one.startswith("{"):
            faults.extend(privacy_faults(one))
    assert not faults, "\n".join(faults[:20])
