"""Records the SQL statements of a release while its tests run, and saves them in
`tests/upgrades/<version>/<database>.sql`, one statement per line.

    python -m tests.upgrades.recording      # before a release; takes some minutes

It is also the pytest plugin that records. Statements that differ only in the number of repetitions
(`IN ($1, $2)`) are saved once.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from hookfast.version import VERSION

HERE = Path(__file__).parent
KINDS = ("sqlite", "postgresql")
_FOLDER = "HOOKFAST_RECORD_STATEMENTS"
RECORDED = (
    *(
        f"tests/integration/api/test_{name}.py"
        for name in (
            *("api_keys", "dead_letters", "deliveries", "delivery_actions", "endpoints"),
            *("event_batches", "event_types", "events", "health", "idempotency", "inbound_server"),
            *("jobs", "pagination", "recovery", "rotation", "subscriptions", "tenants"),
        )
    ),
    "tests/integration/api/audit",
    "tests/integration/api/shared/test_isolation.py",
    "tests/integration/delivery/test_life.py",
    "tests/integration/delivery/test_circuit.py",
    "tests/integration/delivery/test_jobs.py",
    "tests/integration/delivery/test_owner_mail.py",
    "tests/integration/delivery/test_retention.py",
    "tests/integration/delivery/test_daily.py",
    "tests/integration/storage",
)
"""The tests that send a release's statements."""
_NOT_FROM = ("query_plans", "migrate", "partitions")  # these test the schema
_KEPT = re.compile(r"(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$\d+(?:::[\w ]+(?:\[\])?)?|\?")
_REPEATED = re.compile(r"(?P<one>\([^()]*\)|[%])(?:, (?P=one))+")

_seen: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}


def shape(statement: str) -> str:
    """Return a form that is equal for statements that differ only in their repetitions."""
    text = _PLACEHOLDER.sub("%", statement)
    while (shorter := _REPEATED.sub(r"\g<one>", text)) != text:
        text = shorter
    return text


def saved(version: Path, kind: str) -> list[str]:
    """Return the saved statements of a release."""
    return (version / f"{kind}.sql").read_text().splitlines()


def _keep(kind: str, statement: str) -> None:
    line = " ".join(statement.split())
    if _KEPT.match(line):
        known = _seen[kind].get(shape(line))
        if known is None or len(line) < len(known):
            _seen[kind][shape(line)] = line


def pytest_configure(config: pytest.Config) -> None:
    @event.listens_for(
        Engine, "after_cursor_execute"
    )  # statements that fail do not belong to a release
    def record(connection: object, cursor: object, statement: str, *_: object) -> None:
        _keep(connection.dialect.name, statement)  # type: ignore[attr-defined]


def pytest_sessionfinish(session: pytest.Session) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    for kind, statements in _seen.items():
        path = Path(os.environ[_FOLDER]) / f"{worker}.{kind}"
        path.write_text("".join(f"{one}\n" for one in statements.values()))


def _run_the_tests(jobs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), *RECORDED]
        command += ["-p", "tests.upgrades.recording", "-k", f"not ({' or '.join(_NOT_FROM)})"]
        subprocess.run(command, env=os.environ | {_FOLDER: folder}, check=False)
        for kind in KINDS:
            for path in Path(folder).glob(f"*.{kind}"):
                for line in path.read_text().splitlines():
                    _keep(kind, line)


def _save(kind: str, *, foreign: set[str]) -> None:
    target = HERE / VERSION / f"{kind}.sql"
    target.parent.mkdir(exist_ok=True)
    kept = sorted(set(_seen[kind].values()) - foreign)
    target.write_text("".join(f"{one}\n" for one in kept))
    print(f"{target}: {len(kept)} statements. Left out: {sorted(foreign) or 'none'}")


def main() -> None:
    from tests.upgrades.compatibility import broken_on_a_new_database

    _run_the_tests(jobs=int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    for kind in KINDS:
        # some tests alter the schema, and statements for an altered schema are left out
        foreign = asyncio.run(broken_on_a_new_database(kind, list(_seen[kind].values())))
        _save(kind, foreign=set(foreign))


if __name__ == "__main__":
    main()
