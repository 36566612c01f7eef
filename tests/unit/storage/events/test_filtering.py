"""Filters applied to the subscribers of events: what is shared, and what happens at the limits."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
import structlog

from hookfast.errors import Unavailable
from hookfast.events.filter import Filter, Steps, filter_text
from hookfast.storage.events import filtering
from hookfast.storage.events.fan_out import Subscriber
from hookfast.storage.events.filtering import Candidate, Example, Filtering
from hookfast.telemetry import instruments
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

LARGE: Any = {"amount": {"$gte": 100}}
NEVER: Any = {"lines": {"sku": "none", "n": {"$lt": 0}}}
"""Takes three steps for each of the lines."""


def subscriber(name: str, conditions: Any, *, tenant: str = "a") -> Subscriber:
    text = None if conditions is None else filter_text(conditions)
    return Subscriber(name, tenant, "ep_1", "full", "enabled", text)


def event(lines: int = 1, *, amount: int = 100) -> Example:
    data = {"amount": amount, "lines": [{"sku": "x"}] * lines}
    return Example(json.dumps(data), data)


def names(found: Any) -> list[list[str]]:
    return [[one.subscription_id for one in chosen] for chosen in found]


async def test_filters_choose_the_subscribers_of_each_event() -> None:
    subscribers = [
        subscriber("all", None),
        subscriber("large", LARGE),
        subscriber("small", {"amount": {"$lt": 100}}),
    ]
    candidates: list[Candidate] = [
        (subscribers, event()),
        (subscribers, event(amount=5)),
        (subscribers[:1], event()),
        ((), event()),
    ]
    expected = [["all", "large"], ["all", "small"], ["all"], []]
    assert names(await Filtering().alone(candidates)) == expected
    [together] = await Filtering().together([candidates])
    assert names(together) == expected


async def test_same_filter_is_evaluated_once_for_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[str] = []

    def matches(self: Filter, data: Any, steps: Steps) -> bool:
        evaluated.append(self.text)
        return True

    monkeypatch.setattr(Filter, "matches", matches)
    many = [subscriber(f"s{n}", LARGE, tenant=f"t{n}") for n in range(50)]
    [chosen] = await Filtering().alone([(many, event())])
    assert (len(chosen), len(evaluated)) == (50, 1)


async def test_filter_that_takes_too_many_steps_lets_the_event_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filtering, "MAX_STEPS", 1_000)
    subscribers = [subscriber("never", NEVER), subscriber("large", LARGE)]
    before = instruments.FILTERS.total(result="not_applied")
    with structlog.testing.capture_logs() as lines:
        found = await Filtering().alone([(subscribers, event(lines=n)) for n in (300, 400)])
    assert names(found) == [["large"], ["never", "large"]]
    assert instruments.FILTERS.total(result="not_applied") == before + 1
    [line] = lines
    assert (line["count"], line["subscription_id"]) == (1, "never")


async def test_filter_of_another_version_lets_the_event_pass() -> None:
    newer = subscriber("newer", {"amount": {"$later": 1}})
    assert names(await Filtering().alone([([newer], event())])) == [["newer"]]
    [together] = await Filtering().together([[([newer], event())]])
    assert names(together) == [["newer"]]


async def test_heavy_filters_of_a_tenant_leave_those_of_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filtering, "_TENANT_STEPS", 1_000)
    heavy = [subscriber(f"never{n}", NEVER | {"n": n}) for n in range(4)]
    others = [
        subscriber("large", LARGE, tenant="b"),
        subscriber("never", NEVER, tenant="b"),
        subscriber("same", NEVER | {"n": 3}, tenant="c"),  # for this tenant it is the first
    ]
    [chosen] = await Filtering().alone([([*heavy, *others], event(lines=150))])
    passed = [one.subscription_id for one in chosen]
    assert passed == ["never2", "never3", "large"]


async def test_request_with_heavy_filters_leaves_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    light: list[Candidate] = [([subscriber("large", LARGE)], event())]
    heavy: list[Candidate] = [([subscriber("never", NEVER)], event(lines=2_000))]
    monkeypatch.setattr(filtering, "_GROUP_REQUEST_STEPS", 1_000)
    first, second, third = await Filtering().together([light, heavy, light])
    assert second is None
    assert names(first) == names(third) == [["large"]]
    assert names(await Filtering().alone(heavy)) == [[]]
    # a group has only so many steps, and what does not fit is evaluated alone
    monkeypatch.setattr(filtering, "_GROUP_STEPS", 12)
    found = await Filtering().together([light] * 10)
    assert found[0] is not None
    assert found[-1] is None


async def test_request_has_only_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering.Evaluation.__init__, "__defaults__", (1_000,))
    candidates: list[Candidate] = [([subscriber("never", NEVER)], event(lines=150))] * 4
    assert names(await Filtering().alone(candidates)) == [[], [], ["never"], ["never"]]


async def test_slow_requests_wait_for_each_other_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filtering, "_SLOW", 0)
    monkeypatch.setattr(filtering, "_ON_LOOP", 0)
    monkeypatch.setattr(filtering, "_PATIENCE_SECONDS", 0.05)
    filters, slow = Filtering(), threading.Event()

    def matches(self: Filter, data: Any, steps: Steps) -> bool:
        return slow.wait(PATIENCE)

    candidates: list[Candidate] = [([subscriber("large", LARGE)], event())]
    monkeypatch.setattr(Filter, "matches", matches)
    first = asyncio.create_task(filters.alone(candidates))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable) as raised:
        await filters.alone(candidates)
    assert raised.value.code == "overloaded"
    slow.set()
    assert names(await first) == names(await filters.alone(candidates)) == [["large"]]


async def test_long_evaluation_does_not_run_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved: list[Any] = []

    async def to_thread(function: Any, *arguments: Any) -> Any:
        moved.append(function)
        return function(*arguments)

    monkeypatch.setattr(filtering.asyncio, "to_thread", to_thread)  # type: ignore[attr-defined]
    few = [subscriber(f"s{n}", NEVER | {"n": n}) for n in range(10)]
    await Filtering().alone([(few, event(lines=10))])
    await Filtering().together([[(few, event(lines=10))]])
    assert moved == []
    await Filtering().alone([(few, event(lines=5_000))])
    await Filtering().together([[(few * 500, event(lines=10))]])
    assert len(moved) == 2
