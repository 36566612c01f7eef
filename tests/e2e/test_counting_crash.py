"""A process is killed between any two statements that count: a figure is in the commit of the
record, or it is not there, and what was added up is added up once."""

from __future__ import annotations

import json
import signal
import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.e2e.dying_counter import OPERATIONS, Look
from tests.e2e.processes import environment, running

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]

LEAST_DEATHS = {
    "record": 12,  # attempts, lives, lanes, permits, circuits, notices, audit, and what was counted
    "record again": 1,
    "fold": 5,  # two inserts and a delete, the commit, and after it
    "emit": 5,
    "fold again": 5,
    "expire": 5,
}


async def test_a_process_killed_between_two_statements_counts_all_or_nothing(
    database_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "counter.log"
    command = (sys.executable, "-m", "tests.e2e.dying_counter", database_url)
    env = environment(tmp_path, database_url, "127.0.0.1:9")
    async with running(*command, env=env, log=log) as dying:
        assert await dying.wait() == 0, log.read_text()
    looks: list[Look] = [
        json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"operation"')
    ]
    by_operation = {
        name: list(some) for name, some in groupby(looks, key=lambda look: look["operation"])
    }
    assert list(by_operation) == list(OPERATIONS)
    for name, some in by_operation.items():
        *died, last = some
        assert {look["signal"] for look in died} == {signal.SIGKILL}, name
        assert last["signal"] == 0
        assert len(died) >= LEAST_DEATHS[name], name
    recorded = [look["attempts"] for look in by_operation["record"]]
    assert recorded == [0] * (len(recorded) - 2) + [4, 4]
    assert {look["attempts"] for look in by_operation["record again"]} == {4}
    for look in looks:
        if look["operation"] != "expire":
            assert look["differences"] == []
        # figures outlive the rows of dead letters, and gauges do not
        assert all(
            kind.startswith(("delivery:", "ended:", "attempt:")) and number > 0
            for kind, number in look["differences"]
        )
