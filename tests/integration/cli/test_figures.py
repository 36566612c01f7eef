"""`hookfast figures`: deliveries and attempts over time."""

from __future__ import annotations

from datetime import datetime, timedelta

import httpx2
import pytest

from api.routes import figures as routes
from hookfast.clock import rfc3339, utc_now
from hookfast.deliveries.figures import Owner, State, Tally, minute_of
from hookfast.deliveries.outcome import DeliveryStatus, Result
from hookfast.storage.counting import entries
from tests.integration.cli.conftest import TYPE, Run
from tests.integration.cli.test_terminal_width import OnTerminal, on_terminal
from tests.support.api_client import Json
from tests.support.api_server import ApiServer

pytestmark = pytest.mark.anyio

__all__ = ["on_terminal"]


@pytest.fixture
async def hour(served: ApiServer, endpoint: Json) -> datetime:
    """Count 1,000 deliveries in the first minute of an hour: two of them are dead."""
    hour = utc_now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    owner = Owner(endpoint["tenant_id"], endpoint["id"], TYPE)
    tally = Tally()
    for number in range(1_000):
        dead = number < 2
        status = DeliveryStatus.DEAD if dead else DeliveryStatus.DELIVERED
        state = State(status, "retries_exhausted" if dead else None, hour)
        tally.delivery(owner, minute_of(hour), None, state)
        tally.ended(owner, state, took=None if dead else timedelta(seconds=1.5))
        result, code = (Result.STATUS, 503) if dead else (Result.SUCCESS, 200)
        tally.attempt(owner, hour, result, code, 64, first=True)
    async with served.context.database.write() as connection:
        await entries.write(connection, tally.numbers())
    return hour


async def test_sums_come_with_sparklines_and_a_row_for_each_step(
    hookfast: Run, hour: datetime
) -> None:
    window = ("--since", rfc3339(hour), "--until", rfc3339(hour + timedelta(hours=2)))
    shown = await hookfast("figures", *window, "--step", "30m")
    assert shown.code == 0, shown.err
    facts, _, table = shown.out.partition("accepted  attempts")
    lines = {line[:16].strip(): line[18:].strip() for line in facts.splitlines()}
    assert lines["step"] == "30 min"
    assert lines["accepted"] == "1,000         █▁▁▁"
    assert lines["succeeded"] == "998 (99.8 %)  █▁▁▁"
    assert lines["dead"] == "2             █▁▁▁"
    assert "gone" not in lines
    # the middles of buckets: √(1.25¹⁸ · 1.25¹⁹), and √(1.25³² · 1.25³³)
    assert lines["response time"] == "p50 62.1 ms, p95 62.1 ms, p99 62.1 ms"
    assert lines["time to delivery"] == "p50 1.41 s, p95 1.41 s, p99 1.41 s"
    first, second, _, _ = table.splitlines()[1:]
    assert first.split() == [
        *(f"{hour:%Y-%m-%d}", f"{hour:%H:%M}Z", "1,000", "1,000", "99.8", "%", "998", "2"),
        *("0", "0", "62.1", "ms", "62.1", "ms", "62.1", "ms"),
    ]
    assert second.split()[2:] == ["0", "0", "–", "0", "0", "0", "0", "–", "–", "–"]


async def test_groups_are_listed_with_their_shares(
    hookfast: Run, hour: datetime, monkeypatch: pytest.MonkeyPatch, endpoint: Json
) -> None:
    last = ("figures", "--since", rfc3339(hour), "--until", rfc3339(hour + timedelta(hours=2)))
    by_result = await hookfast(*last, "--by", "result", "--tenant", "acme")
    assert [line.split() for line in by_result.out.splitlines()[-3:]] == [
        ["result", "attempts", "share", "over", "time"],
        ["success", "998", "99.8", "%", "█" + "▁" * 23],
        ["5xx", "2", "0.2", "%", "█" + "▁" * 23],
    ]
    by_status = await hookfast(*last, "--by", "status", "--endpoint", endpoint["id"])
    rows = [line.split()[:2] for line in by_status.out.splitlines()[-5:]]
    assert rows == [
        ["status", "accepted"],
        ["delivered", "998"],
        ["dead", "2"],
        ["reason", "dead"],
        ["retries_exhausted", "2"],
    ]
    by_type = await hookfast(*last, "--by", "type")
    row = by_type.out.splitlines()[-1].split()
    assert row == [TYPE, "1,000", "1,000", "99.8", "%", "998", "2", "0", "█▁"]
    monkeypatch.setattr(routes, "MAX_TYPES", 0)
    none = await hookfast(*last, "--by", "type")
    assert "1 more event type is less frequent." in none.out + none.err


async def test_json_is_the_answer_of_the_api(
    hookfast: Run, hour: datetime, client: httpx2.AsyncClient
) -> None:
    printed = await hookfast("figures", "--since", rfc3339(hour), "--step", "6h", "--json")
    query = {"since": rfc3339(hour), "step": "6h"}
    answer = await client.get("/figures", params=query)
    assert printed.out.strip() == answer.text
    refused = await hookfast("figures", "--step", "7m")
    assert (refused.code, refused.out) == (1, "")
    assert "step" in refused.error_text
    wrong = await hookfast("figures", "--since", "yesterday")
    assert wrong.code == 2


@pytest.mark.parametrize("by", [(), ("--by", "result"), ("--by", "status"), ("--by", "type")])
async def test_lines_fit_a_terminal(
    on_terminal: OnTerminal, hour: datetime, by: tuple[str, ...]
) -> None:
    for line in await on_terminal(80, "figures", "--since", "3h", *by):
        assert len(line) <= 80, line


async def test_a_time_without_anything_has_zeros(hookfast: Run, tenant: str) -> None:
    shown = await hookfast("figures", "--tenant", tenant)
    assert shown.code == 0, shown.err
    assert f"accepted   0  {'▁' * 25}\n" in shown.out
    assert "step       1 h\n" in shown.out
    assert "response time" not in shown.out
