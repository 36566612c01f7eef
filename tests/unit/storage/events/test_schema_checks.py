"""Checking events against schemas: slow checks do not delay other requests for long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from hookfast.clock import utc_now
from hookfast.errors import InvalidInput, Unavailable
from hookfast.events.schema import CompiledSchema, InvalidSchema
from hookfast.storage.events import schema_checks
from hookfast.storage.events.schema_checks import SchemaChecks
from hookfast.storage.events.schemas import Schema

pytestmark = pytest.mark.anyio

PATTERN = {"pattern": r"(a*)\1b"}
LONG = "a" * 200_000


@dataclass
class Data:
    value: Any


def schema(rules: Any) -> Schema:
    return Schema(utc_now(), CompiledSchema(rules))


def codes(faults: list[schema_checks.Fault] | None) -> list[str | None]:
    assert faults is not None
    return [None if fault is None else fault.code for fault in faults]


async def test_event_that_takes_too_long_is_rejected_and_the_others_of_its_request_are_not() -> (
    None
):
    good, bad = (schema(PATTERN), Data("ab")), (schema(PATTERN), Data(LONG))
    assert codes(await SchemaChecks().alone([good, bad, good])) == [None, "schema_too_slow", None]


async def test_a_group_without_time_leaves_requests_to_be_checked_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = schema({"type": "string"})
    group = [[(text, Data("a"))], [(text, Data(1)), (text, Data("b"))]]
    for short in (True, False):
        first, last = await SchemaChecks().together(group, short=short)
        assert (codes(first), codes(last)) == ([None], ["schema_violation", None])
    monkeypatch.setattr(schema_checks, "_GROUP_SECONDS", 0)
    for short in (True, False):
        assert await SchemaChecks().together(group, short=short) == [None, None]


async def test_events_for_which_a_request_has_no_time_left_get_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema_checks, "_REQUEST_SECONDS", 0)
    found = await SchemaChecks().alone([(schema(True), Data(1))] * 2)
    assert [type(fault) for fault in found] == [Unavailable, Unavailable]


async def test_a_request_that_waits_too_long_for_slow_checks_gets_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema_checks, "_PATIENCE_SECONDS", 0.01)
    checks = SchemaChecks()
    good = [(schema(PATTERN), Data("ab"))]
    async with checks._alone:  # another request is being checked
        with pytest.raises(Unavailable) as caught:
            await checks.alone(good)
    assert caught.value.code == "overloaded"
    assert codes(await checks.alone(good)) == [None]


async def test_stored_schema_that_can_no_longer_be_applied_rejects_only_its_own_events() -> None:
    unusable = Schema(utc_now(), InvalidSchema(("pattern",), "not supported"))
    [fault, none] = await SchemaChecks().alone([(unusable, Data(1)), (schema(True), Data(1))])
    assert isinstance(fault, InvalidInput)
    assert (fault.code, none) == ("schema_unusable", None)
