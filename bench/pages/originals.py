"""Delivers the events whose rows are copied: to receivers that work, are slow, fail at times or
always, for tenants of different sizes."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate
from typing import Any, Final

from bench.delivery.events import BATCH, create_endpoints, create_tenant
from bench.parts import Bench
from hookfast.clock import rfc3339, utc_now

RECEIVER: Final = (sys.executable, "-m", "bench.chaos.receiver", "pages")
"""The command of the receiver."""
EVENT_TYPES: Final = tuple(
    f"{noun}.{verb}"
    for noun in ("order.invoice", "order.refund", "customer.account", "stock.item")
    for verb in ("created", "changed", "deleted")
)
ENDPOINTS_EACH: Final = 5
"""Endpoints of a tenant."""
_SKEW: Final = 0.7
"""The share of the n-th largest tenant is 1/n to this power."""
_SCHEDULED: Final = timedelta(days=20)
_SOON_IS: Final = timedelta(seconds=50)
_PATIENCE_SECONDS: Final = 300
_FEW: Final = 8
"""Deliveries that people pause, and as many that are scheduled."""
_CANCELLED: Final = 40
_AT_ONCE: Final = 8
"""Endpoints that are created at the same time."""

_NEVER_OPENS: Final = {"failure_threshold": 1000, "min_span_seconds": 3600}
_SOON: Final = {"delays_seconds": [1, 1, 1, 1, 1], "jitter": 0}
_LATER: Final = {"delays_seconds": [7200, 7200], "jitter": 0}


@dataclass(frozen=True, slots=True)
class _Role:
    """How an endpoint behaves: its path at the receiver, and its settings."""

    path: str
    settings: Mapping[str, Any] = field(default_factory=dict)


_WORKS = _Role("/orders")
_STEADY = _Role("/steady", {"retry_plan": _SOON, "circuit": _NEVER_OPENS})
_SLOW = _Role("/slow", {"retry_plan": _SOON, "circuit": _NEVER_OPENS, "timeout_seconds": 2})
_FLAKY = _Role("/flaky", {"retry_plan": _SOON, "circuit": _NEVER_OPENS, "timeout_seconds": 1})
_HOPELESS = _Role(
    "/hopeless",
    {"retry_plan": {"delays_seconds": [1], "retry_on": "transient"}, "circuit": _NEVER_OPENS},
)
_LEAVING = _Role("/leaving")
_RETRIED = _Role("/hopeless", {"retry_plan": _LATER, "circuit": _NEVER_OPENS})
_HELD = _Role(
    "/hopeless", {"retry_plan": _LATER, "circuit": {"failure_threshold": 2, "min_span_seconds": 0}}
)
_ORDERED = _Role("/hopeless", {"retry_plan": _LATER, "circuit": _NEVER_OPENS, "ordered": True})
_ROLES: Final = (
    *(_WORKS, _STEADY, _HOPELESS, _WORKS, _WORKS),
    *(_WORKS, _SLOW, _WORKS, _LEAVING, _WORKS),
    *(_HOPELESS, _WORKS, _WORKS, _FLAKY, _WORKS),
    *(_WORKS, _WORKS, _STEADY, _WORKS, None),
)
_RARE: Final = (_RETRIED, _HELD, _ORDERED)
"""The roles of every twentieth endpoint, in turns."""


async def deliver(bench: Bench, *, endpoints: int, say: Callable[[str], None]) -> None:
    """Create so many endpoints, deliver four events for each on average, and wait until only those
    are left that wait for long."""
    say(f"{endpoints} endpoints")
    tenants = [
        await create_tenant(bench, f"Tenant {number + 1}")
        for number in range(endpoints // ENDPOINTS_EACH)
    ]
    slots = asyncio.Semaphore(_AT_ONCE)

    async def create(number: int) -> None:
        role = _ROLES[number % len(_ROLES)] or _RARE[number // len(_ROLES) % len(_RARE)]
        async with slots:
            await create_endpoints(
                bench,
                [role.path],
                tenant=tenants[number // ENDPOINTS_EACH],
                event_type=_type_of(number),
                **role.settings,
            )

    await asyncio.gather(*map(create, range(endpoints)))
    say(f"{4 * endpoints} events")
    dice = random.Random("pages")
    chosen = _choose(dice, endpoints, 4 * endpoints)
    await _emit(bench, tenants, chosen[:_FEW], deliver_at=rfc3339(utc_now() + _SCHEDULED))
    await _emit(bench, tenants, chosen[_FEW:])
    await _until_settled(bench)
    say("some more for open circuits, and what people do")
    rare = [number for number in range(endpoints) if _ROLES[number % len(_ROLES)] is None]
    await _emit(bench, tenants, rare * 2)
    await _until_settled(bench)
    await _act(bench)
    await _until_settled(bench)


def _type_of(endpoint: int) -> str:
    return EVENT_TYPES[endpoint % len(EVENT_TYPES)]


def _choose(dice: random.Random, endpoints: int, count: int) -> list[int]:
    """Return the endpoint of each event."""
    tenants = endpoints // ENDPOINTS_EACH
    weights = list(accumulate((number + 1) ** -_SKEW for number in range(tenants)))
    return [
        tenant * ENDPOINTS_EACH + dice.randrange(ENDPOINTS_EACH)
        for tenant in dice.choices(range(tenants), cum_weights=weights, k=count)
    ]


async def _emit(
    bench: Bench, tenants: list[str], endpoints: list[int], *, deliver_at: str | None = None
) -> None:
    """Emit an event for each of these endpoints, by number."""
    events = [
        {
            "type": _type_of(endpoint),
            "tenant_id": tenants[endpoint // ENDPOINTS_EACH],
            "data": {"n": number, "order": f"ord_{number:08}", "filler": "x" * 300},
            "deliver_at": deliver_at,
        }
        for number, endpoint in enumerate(endpoints)
    ]
    for sent in range(0, len(events), BATCH):
        answer = await bench.client.post(
            f"{bench.api}/v1/events/batch", json={"events": events[sent : sent + BATCH]}
        )
        assert answer.status_code == 202, answer.text


async def _act(bench: Bench) -> None:
    """Pause some deliveries, and cancel others."""
    for status, action, most in (
        ("retrying", "pause", _FEW),
        ("held", "pause", _FEW),
        ("retrying", "cancel", _CANCELLED),
    ):
        listed = await bench.client.get(
            f"{bench.api}/v1/deliveries", params={"status": status, "limit": most}
        )
        found = listed.json()["data"]
        # never all: some of each status are to be left
        for one in found[: max(1, len(found) // 2)]:
            answer = await bench.client.post(f"{bench.api}/v1/deliveries/{one['id']}/{action}")
            assert answer.status_code == 202, answer.text


async def _until_settled(bench: Bench) -> None:
    """Wait until nothing is due soon."""
    begun = time.monotonic()
    while soon := await _due_soon(bench):
        assert time.monotonic() - begun < _PATIENCE_SECONDS, f"{soon} is still due"
        await asyncio.sleep(0.5)


async def _due_soon(bench: Bench) -> str | None:
    """Return a delivery whose next attempt is due soon, if there is one."""
    soon = rfc3339(utc_now() + _SOON_IS)
    for status in ("pending", "retrying", "held"):
        cursor: str | None = ""
        while cursor is not None:
            listed = await bench.client.get(
                f"{bench.api}/v1/deliveries",
                params={"status": status, "limit": 200} | ({"cursor": cursor} if cursor else {}),
            )
            assert listed.status_code == 200, listed.text
            for one in listed.json()["data"]:
                if (due := one["next_attempt_at"]) is not None and due < soon:
                    return str(one["id"])
            cursor = listed.json()["next_cursor"]
    return None
