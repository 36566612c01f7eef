"""The demo on terminals of several widths: no wrapped line, no cut URL, and advice."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from typing import Any

import httpx2
import pytest
from rich.cells import cell_len
from rich.console import Console

from hookfast.cli.demo.board import Board
from hookfast.cli.demo.receiver import Receiver
from hookfast.cli.demo.scene import ENDPOINTS, EVENT_TYPES
from hookfast.cli.demo.view import View
from hookfast_client import AsyncHookfast

pytestmark = pytest.mark.anyio

_NOW = datetime(2026, 11, 25, 10, tzinfo=UTC)
_UI = "http://127.0.0.1:8233"


class _Answers:
    """An API with a delivery of each status, newest last."""

    def __init__(self, statuses: dict[str, int]) -> None:
        self.deliveries = {
            f"dlv_{number:032x}": self._delivery(number, status, attempts)
            for number, (status, attempts) in enumerate(statuses.items(), start=1)
        }

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        id_ = request.url.path.rpartition("/")[2]
        page = {"data": list(self.deliveries.values()), "next_cursor": None}
        return httpx2.Response(200, json=self.deliveries.get(id_, page))

    def _delivery(self, number: int, status: str, attempts: int) -> dict[str, Any]:
        id_ = f"dlv_{number:032x}"
        one = {"status_code": 503, "result": "status", "duration_ms": 2001.4}
        return {
            "id": id_,
            "endpoint_id": f"ep_{number:032x}",
            "event_type": max(EVENT_TYPES, key=len),
            "status": status,
            "attempt_count": attempts,
            "attempts": [one] * attempts,
            "next_attempt_at": None,
            "updated_at": _NOW.isoformat(),
            "workflow": {"url": f"{_UI}/namespaces/default/workflows/delivery%2F{id_}"},
        }


async def _shown(statuses: dict[str, int], *, width: int, height: int = 40) -> list[str]:
    """Return the lines of the demo's screen with deliveries of these statuses and attempts."""
    api = _Answers(statuses)
    longest = max((endpoint.name for endpoint in ENDPOINTS), key=len)
    names = {delivery["endpoint_id"]: longest for delivery in api.deliveries.values()}
    transport = httpx2.MockTransport(api)
    async with httpx2.AsyncClient(transport=transport) as http:
        hookfast = AsyncHookfast("http://hookfast.test", "hf_key", http_client=http)
        board = Board(hookfast, "tnt_1", names=names, since=_NOW)
        await board.refresh()
    view = View(
        api_url="http://127.0.0.1:8080",
        temporal_ui_url=_UI,
        key=f"hf_{'k' * 43}",
        log="var/demo/hookfast.log",
    )
    console = Console(file=StringIO(), width=width, height=height, color_system=None)
    receiver = Receiver(port=0, secrets={})
    console.print(view.frame(console, board, receiver, now=_NOW), soft_wrap=False)
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


_ALL = {"dead": 4, "held": 0, "delivered": 3, "retrying": 2, "gone": 1}


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (60, "event to status next"),
        (80, "event to status answer next"),
        (106, "event to which status attempts answer next"),
        (200, "event to which status attempts answer next"),
    ],
)
async def test_columns_are_chosen_by_width_and_nothing_is_wrapped(
    width: int, headings: str
) -> None:
    lines = await _shown(_ALL, width=width)
    assert max(cell_len(line) for line in lines) <= width
    [head] = [line for line in lines if line.startswith("event ")]
    assert head.split() == headings.split()
    assert sum(max(EVENT_TYPES, key=len) in line for line in lines) >= len(_ALL)
    assert f"API key      hf_{'k' * 43}" in lines
    assert "…" not in "".join(lines)


async def test_it_says_what_to_look_at_next_with_urls_and_commands_that_are_whole() -> None:
    dead, held = f"dlv_{1:032x}", f"ep_{2:032x}"
    lines = await _shown(_ALL, width=80)
    at = lines.index(f"Look next: why {max(EVENT_TYPES, key=len)} never reached gradebook")
    assert lines[at + 1] == f"http://127.0.0.1:8080/dashboard/deliveries/{dead}"
    assert lines[at + 2].endswith(f"hookfast deliveries show {dead}")
    assert lines[at + 3] == "Commands need HOOKFAST_API_KEY."
    assert f"http://127.0.0.1:8080/dashboard/endpoints/{held}" in lines
    wide = await _shown(_ALL, width=120)
    assert f"{_UI}/namespaces/default/workflows/delivery%2F{f'dlv_{3:032x}'}" in wide


async def test_a_narrow_terminal_gets_shorter_urls_instead_of_cut_ones() -> None:
    lines = await _shown(_ALL, width=60)
    assert "http://127.0.0.1:8080/dashboard/dead-letters" in lines
    assert any(line.endswith(f"hookfast deliveries show {1:08x}") for line in lines)


async def test_a_low_terminal_keeps_room_for_deliveries() -> None:
    lines = await _shown(_ALL, width=80, height=24)
    assert len(lines) <= 24
    assert sum(line.startswith("Look next") for line in lines) == 1


async def test_without_anything_to_see_it_gives_no_advice() -> None:
    lines = await _shown({"pending": 0, "delivered": 1}, width=80)
    assert not any("Look next" in line or "Commands" in line for line in lines)
