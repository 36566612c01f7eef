"""Checking events against schemas: a slow check does not delay other requests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from hookfast.clock import utc_now
from hookfast.errors import InvalidInput, Unavailable
from hookfast.events.schema import BoundedSchema
from hookfast.storage.events import schema_checks
from hookfast.storage.events.schema_checks import SchemaChecks
from hookfast.storage.events.schemas import Schema

pytestmark = pytest.mark.anyio

PATTERN = {"pattern": "[^@]+[@!][^@]+"}
LONG = "a" * 200_000


@dataclass
class Data:
    value: Any


def schema(rules: Any) -> Schema:
    return Schema(utc_now(), BoundedSchema(rules))


def codes(faults: list[schema_checks.Fault] | None) -> list[str | None]:
    assert faults is not None
    return [None if fault is None else fault.code for fault in faults]


class LoopTurns:
    """Event data that counts the turns of the event loop after its value was read."""

    def __init__(self) -> None:
        self._turns = 0
        self._first: int | None = None

    @property
    def value(self) -> str:
        if self._first is None:
            self._first = self._turns
        return LONG

    @property
    def since(self) -> int:
        assert self._first is not None
        return self._turns - self._first

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            self._turns += 1


@pytest.mark.parametrize("rules", [PATTERN, {"not": PATTERN}, {"allOf": [True, PATTERN]}], ids=str)
async def test_a_slow_pattern_does_not_block_the_event_loop(
    rules: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_checks, "_QUICK_SECONDS", 0.01)
    monkeypatch.setattr(schema_checks, "EVENT_SECONDS", 0.2)
    turns = LoopTurns()
    counting = asyncio.create_task(turns.count())
    faults = await SchemaChecks().alone([(schema(rules), turns)])
    counting.cancel()
    assert codes(faults) == ["schema_too_slow"]
    assert turns.since > 20


async def test_a_slow_check_does_not_delay_the_others_of_its_group() -> None:
    checks = SchemaChecks()
    text = schema({"type": "string"})
    group = [
        [(text, Data("a"))],
        [(schema(PATTERN), Data(LONG))],
        [(text, Data(1)), (text, Data("b"))],
    ]
    for short in (True, False):
        first, slow, last = await checks.together(group, short=short)
        assert (codes(first), slow, codes(last)) == ([None], None, ["schema_violation", None])


async def test_events_for_which_a_request_has_no_time_left_get_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, seconds in (
        ("_QUICK_SECONDS", 0.01),
        ("EVENT_SECONDS", 0.05),
        ("_REQUEST_SECONDS", 0.5),
    ):
        monkeypatch.setattr(schema_checks, name, seconds)
    bad, good = (schema(PATTERN), Data(LONG)), (schema(True), Data(1))
    found = await SchemaChecks().alone([good, bad, good, *[bad] * 20, good])
    assert codes(found)[:3] == [None, "schema_too_slow", None]
    assert isinstance(found[1], InvalidInput)
    # also an event whose check takes no time: it would overtake those before it
    assert isinstance(found[-2], Unavailable)
    assert isinstance(found[-1], Unavailable)


async def test_a_request_that_waits_too_long_for_slow_checks_gets_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema_checks, "_PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(schema_checks, "_QUICK_SECONDS", 0.01)
    monkeypatch.setattr(schema_checks, "EVENT_SECONDS", 0.1)
    checks = SchemaChecks()
    bad = [(schema(PATTERN), Data(LONG))]
    async with checks._slow:  # another request is being checked
        with pytest.raises(Unavailable) as caught:
            await checks.alone(bad)
    assert caught.value.code == "overloaded"
    assert codes(await checks.alone(bad)) == ["schema_too_slow"]
