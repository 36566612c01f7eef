"""`hookfast emit` and `hookfast events`."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
from pathlib import Path

import httpx2
import pytest

from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_client import Json
from tests.support.forked_command import start_forked
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

_DATA = '{"amount": 1.50, "note": "naïve"}'


async def test_an_event_is_emitted_with_its_data_byte_for_byte(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str
) -> None:
    options = ("--tenant", tenant, "--ordering-key", "invoice 1")
    ended = await hookfast("emit", TYPE, _DATA, *options, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["deliveries"] == 0
    stored = await client.get(f"/events/{ended.json['id']}")
    assert f'"data":{_DATA}' in stored.text
    assert (stored.json()["tenant_id"], stored.json()["ordering_key"]) == (tenant, "invoice 1")


@pytest.mark.parametrize("how", ["file", "argument -", "option -"])
async def test_event_data_may_be_read_from_a_file_or_standard_input(
    hookfast: Run, tenant: str, tmp_path: Path, how: str
) -> None:
    file = tmp_path / "data.json"
    file.write_text(_DATA)
    source = {
        "file": ("--data-file", str(file)),
        "argument -": ("-",),
        "option -": ("--data-file", "-"),
    }[how]
    ended = await hookfast("emit", TYPE, *source, stdin=_DATA)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("evt_")
    assert f": {TYPE}, 0 deliveries." in ended.out


async def test_repeated_idempotency_key_is_reported(hookfast: Run, tenant: str) -> None:
    arguments = ("emit", TYPE, "1", "--idempotency-key", "k1")
    first, second = await hookfast(*arguments), await hookfast(*arguments)
    assert second.out == first.out.replace(
        ".\n", "; it was emitted before with this idempotency key.\n"
    )
    listed = await hookfast("events", "list", "--idempotency-key", "k1", "--json")
    assert [event["id"] for event in listed.json["data"]] == [first.out.partition(":")[0]]


async def test_event_can_be_delivered_later(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str
) -> None:
    ended = await hookfast("emit", TYPE, "1", "--deliver-at", "2h", "--json")
    event = (await client.get(f"/events/{ended.json['id']}")).json()
    assert event["deliver_at"] > event["created_at"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [TYPE],
        [TYPE, "1", "--data-file", "x"],
        [TYPE, "not JSON"],
        [TYPE, '1, "tenant_id": "tnt_1"'],
        [TYPE, "--data-file", "missing.json"],
        [TYPE, "1", "--idempotency-key", "two words"],
        [TYPE, "--batch", "-"],
    ],
)
async def test_incomplete_arguments_are_a_usage_error(hookfast: Run, arguments: list[str]) -> None:
    ended = await hookfast("emit", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err


async def test_event_of_an_unknown_type_is_rejected_in_a_sentence(
    hookfast: Run, tenant: str
) -> None:
    ended = await hookfast("emit", "no.such.type", "1")
    assert (ended.code, ended.out) == (1, "")
    assert "/type" in ended.err


def _lines(count: int, **members: object) -> str:
    return "".join(json.dumps({"type": TYPE, "data": n} | members) + "\n" for n in range(count))


async def test_batch_is_sent_in_as_many_requests_as_needed(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str, tmp_path: Path
) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text(_lines(1_100))
    arguments = ("emit", "--batch", str(file), "--idempotency-key", "run")
    assert (await hookfast(*arguments)).out == "1,100 events emitted.\n"
    again = await hookfast(*arguments)
    assert again.out == "1,100 events emitted, 1,100 of them before.\n"


async def test_batch_as_json_prints_the_apis_responses(hookfast: Run, tenant: str) -> None:
    ended = await hookfast("emit", "--batch", "-", "--json", stdin=_lines(1_001))
    answers = [json.loads(line) for line in ended.out.splitlines()]
    assert [answer["accepted"] for answer in answers] == [1_000, 1]


async def test_batch_stops_at_a_rejected_event_and_says_how_to_continue(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str, tmp_path: Path
) -> None:
    file = tmp_path / "events.ndjson"
    good = _lines(1_003).splitlines(keepends=True)
    bad = good[2].replace(TYPE, "no.such.type")
    file.write_text("".join([*good[:2], bad, *good[3:]]))
    stopped = await hookfast("emit", "--batch", str(file), "--idempotency-key", "run")
    assert (stopped.code, stopped.out) == (1, "")
    assert "Line 3: " in stopped.err
    assert "Stopped after 999 events." in stopped.err
    again = f"hookfast emit --batch {file} --idempotency-key run --from-line 3"
    assert again in stopped.err

    file.write_text("".join(good))
    corrected = await hookfast(*again.split()[1:])
    assert corrected.out == "1,001 events emitted, 997 of them before.\n"  # lines 4 to 1,000


async def test_batch_stops_at_an_invalid_line_after_sending_the_lines_before(
    hookfast: Run, tenant: str
) -> None:
    ended = await hookfast("emit", "--batch", "-", stdin=_lines(2) + "nonsense\n")
    assert ended.code == 1
    assert "Line 3 is not JSON" in ended.err
    assert "Stopped after 2 events." in ended.err
    assert "--from-line 3" in ended.err


async def test_printed_command_continues_the_batch(
    hookfast: Run, tenant: str, tmp_path: Path
) -> None:
    file = tmp_path / "events of $may's.ndjson"
    file.write_text(_lines(2) + '{"type": "a.b.c", "data": NaN}\n')
    stopped = await hookfast("emit", "--batch", str(file))
    assert "Line 3 is not JSON: NaN and Infinity are not JSON at column 27" in stopped.err
    assert "Stopped after 2 events." in stopped.err
    file.write_text(_lines(3))
    [again] = [line for line in stopped.err.splitlines() if line.startswith("  hookfast ")]
    corrected = await hookfast(*shlex.split(again)[1:])
    assert corrected.out == "1 event emitted.\n"


async def test_ctrl_c_prints_how_to_continue_the_batch(
    service_environment: dict[str, str], client: httpx2.AsyncClient, tenant: str, tmp_path: Path
) -> None:
    process = await start_forked(("emit", "--batch", "-"), folder=tmp_path, env=service_environment)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write((_lines(1_000) + "\n" * 100_000).encode())
    process.stdin.write(_lines(1).encode() + b"\n" * 100_000)  # fills the buffer it reads by
    async with asyncio.timeout(PATIENCE):
        await process.stdin.drain()
        while len((await client.get("/events")).json()["data"]) == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    stopped = err.decode()
    assert re.search(r"Stopped after (1,000|0) events\.", stopped)
    assert re.search(r"--idempotency-key batch-\w+ --from-line \d+", stopped)
    assert "Traceback" not in stopped


async def test_an_event_is_shown_with_its_deliveries(
    hookfast: Run, endpoint: Json, tenant: str
) -> None:
    event = (await hookfast("emit", TYPE, _DATA, "--tenant", tenant, "--json")).json
    shown = await hookfast("events", "show", event["id"])
    assert event["id"] in shown.out
    assert "naïve" in shown.out
    assert "dlv_" in shown.out
    listed = await hookfast("events", "list", "--type", TYPE, "--since", "1h", "--tenant", tenant)
    assert event["id"] in listed.out
    assert "\x1b" not in listed.out


async def test_an_event_as_json_is_what_the_api_answers(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str
) -> None:
    event = (await hookfast("emit", TYPE, _DATA, "--json")).json
    shown = await hookfast("events", "show", event["id"], "--json")
    assert shown.out == (await client.get(f"/events/{event['id']}")).text + "\n"
    assert shown.err == ""


async def test_a_replay_counts_new_subscribers_too(
    hookfast: Run, client: httpx2.AsyncClient, tenant: str
) -> None:
    event = (await hookfast("emit", TYPE, "1", "--tenant", tenant, "--json")).json
    form = {"tenant_id": tenant, "url": "http://127.0.0.1:4/", "verification": "none"}
    await client.post("/endpoints", json=form | {"events": ["**"]})
    counted = await hookfast("events", "replay", event["id"], "--include-new", "--dry-run")
    assert counted.out == "No delivery matches. 1 new delivery would be created.\n"
    declined = await hookfast("events", "replay", event["id"], "--include-new", stdin="n\n")
    assert declined.code == 1
    assert "Create 1 new delivery? [y/N]" in declined.err
    done = await hookfast("events", "replay", event["id"], "--include-new", "--yes", "--no-wait")
    assert "1 new delivery created." in done.err
    assert len((await client.get(f"/events/{event['id']}/deliveries")).json()["data"]) == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ('{"a": 1', "Expecting ',' delimiter at line 1, column 8; correct it there"),
        ('{"a": 1, "a": 2}', "two members of an object have the same name at line 1, column 10"),
        ("\ufeff{}", "it starts with a byte order mark; send UTF-8 without one"),
        ("", "it is empty; send a JSON value"),
    ],
)
async def test_data_that_the_api_would_reject_is_not_sent(
    hookfast: Run, tmp_path: Path, data: str, why: str
) -> None:
    """The API would name a place in a request body that nobody sees."""
    file = tmp_path / "data.json"
    file.write_text(data)
    ended = await hookfast("emit", TYPE, "--data-file", str(file), "--url", "http://127.0.0.1:4")
    assert (ended.code, ended.out) == (2, "")
    assert f"the data is not JSON: {why}" in ended.error_text
