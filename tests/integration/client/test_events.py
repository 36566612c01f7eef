"""Emitting events, one and many: each exactly once, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from hookfast_client import (
    AsyncHookfast,
    Conflict,
    ConnectionFailed,
    InvalidInput,
    TimedOut,
    TooLarge,
    Unavailable,
    batch,
)
from hookfast_client.call import Call
from tests.integration.client.conftest import TYPE, Connect, on_both_databases
from tests.support.faulty_proxy import Answer, Fault, FaultyProxy

pytestmark = pytest.mark.anyio

_BUSY = Answer(503, b'{"detail": "Busy.", "code": "unavailable"}', {"Retry-After": "0"})


async def _emitted(client: Any) -> list[dict[str, Any]]:
    return [event async for event in client.events.list()]


@on_both_databases
async def test_an_event_is_emitted_once_whatever_happens_to_its_answer(
    hookfast: Any, proxy: FaultyProxy
) -> None:
    faults: tuple[Fault | Answer, ...] = ("lose the answer", "reset", "close", _BUSY, Answer(502))
    proxy.next(*faults)
    event = await hookfast.events.emit(TYPE, {"amount": 1}, tenant_id=None)
    requests = [request for request in proxy.requests if request.method == "POST"]
    assert len(requests) == len(faults) + 1
    assert len({request.headers["idempotency-key"] for request in requests}) == 1
    assert event["replayed"] is True
    assert [found["id"] for found in await _emitted(hookfast)] == [event["id"]]


async def test_data_is_emitted_as_it_is(hookfast: Any) -> None:
    exact = '{ "n": 1.50, "big": 12345678901234567890 }'
    for data, text in (
        ({"name": "Zoë", "list": [None, True]}, '{"name":"Zoë","list":[null,true]}'),
        (exact.encode(), exact),
        ({"n": Decimal("0.10000000000000000001")}, '{"n":0.10000000000000000001}'),
        (None, "null"),
        ("text", '"text"'),
    ):
        event = await hookfast.events.emit(TYPE, data)
        answer = await hookfast.send(Call(method="GET", path=f"/events/{event['id']}"))
        assert f'"data":{text}' in answer.text.replace('"data": ', '"data":'), answer.text


async def test_an_event_has_its_tenant_and_time(hookfast: Any) -> None:
    tenant = await hookfast.tenants.create(name="Acme")
    at = datetime.now(UTC) + timedelta(days=1)
    event = await hookfast.events.emit(TYPE, 1, tenant_id=tenant["id"], deliver_at=at)
    found = await hookfast.events.get(event["id"])
    assert found["tenant_id"] == tenant["id"]
    assert datetime.fromisoformat(found["deliver_at"]) == at


async def test_a_key_of_the_callers_own_is_used(hookfast: Any) -> None:
    first = await hookfast.events.emit(TYPE, 1, idempotency_key="invoice-1")
    again = await hookfast.events.emit(TYPE, 1, idempotency_key="invoice-1")
    assert (first["id"], first["replayed"]) == (again["id"], False)
    assert again["replayed"] is True
    with pytest.raises(Conflict) as failed:
        await hookfast.events.emit(TYPE, 2, idempotency_key="invoice-1")
    assert failed.value.code == "idempotency_key_reused"


@on_both_databases
async def test_a_batch_has_one_result_for_each_event_in_order(
    hookfast: Any, proxy: FaultyProxy
) -> None:
    events: list[Any] = [{"type": TYPE, "data": number} for number in range(2_500)]
    events[1_200]["type"] = "no.such.type"
    events[2_499]["idempotency_key"] = "mine"
    proxy.next("lose the answer")
    result = await hookfast.events.emit_batch(events)
    sizes = [len(json.loads(request.body)["events"]) for request in proxy.requests]
    assert sizes == [1_000, 1_000, 1_000, 500]
    assert (len(result), result.accepted, result.rejected) == (2_500, 2_499, 1)
    assert isinstance(result.items[1_200].error, InvalidInput)
    assert result.items[1_200].error.errors[0].pointer == "/type"
    assert [item.event["replayed"] for item in result.items[:1_000]] == [True] * 1_000
    assert not any(item.event["replayed"] for item in result.items[2_000:])
    with pytest.raises(InvalidInput, match="unknown_event_type"):
        result.raise_for_rejected()
    found = await _emitted(hookfast)
    assert len(found) == 2_499
    last = [event async for event in hookfast.events.list(idempotency_key="mine")]
    assert [event["id"] for event in last] == [result.items[2_499].event["id"]]


async def test_a_batch_is_split_by_size(
    hookfast: Any, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_BYTES", 30_000)
    proxy.next()
    events = ({"type": TYPE, "data": "x" * 10_000} for _ in range(5))
    result = await hookfast.events.emit_batch(events)
    sizes = [len(json.loads(request.body)["events"]) for request in proxy.requests]
    assert (sizes, result.accepted) == ([2, 2, 1], 5)


async def test_a_batch_is_halved_until_the_server_takes_it(
    hookfast: Any, proxy: FaultyProxy
) -> None:
    too_large = Answer(413, b'{"detail": "Too large.", "code": "too_large"}', {})
    events = [{"type": TYPE, "data": number} for number in range(8)]
    proxy.next(too_large, too_large)
    result = await hookfast.events.emit_batch(events)
    sizes = [len(json.loads(request.body)["events"]) for request in proxy.requests]
    assert sizes[0] == 8
    assert max(sizes[2:]) <= 3
    assert sum(sizes[2:]) == result.accepted == 8

    result = await hookfast.events.emit_batch(
        [{"type": TYPE, "data": "x" * 300_000}, {"type": TYPE, "data": 1}]
    )
    assert isinstance(result.items[0].error, TooLarge)
    assert result.items[1].event is not None


async def test_a_batch_that_fails_says_what_was_emitted_and_can_be_repeated(
    connect: Connect, hookfast: Any, proxy: FaultyProxy
) -> None:
    impatient = connect(proxy.url, max_retries=0)
    events = [{"type": TYPE, "data": number} for number in range(1_500)]
    proxy.next()
    await hookfast.events.emit_batch([])
    assert not proxy.requests
    lost = impatient.events.emit_batch(events, idempotency_key="import")
    proxy.next()
    proxy.faults.append("lose the answer")
    with pytest.raises(ConnectionFailed) as failed:
        await lost
    assert failed.value.outcome_unknown
    assert failed.value.partial_batch is not None
    assert len(failed.value.partial_batch) == 0
    again = await hookfast.events.emit_batch(events, idempotency_key="import")
    assert [item.event["replayed"] for item in again] == [True] * 1_000 + [False] * 500
    assert len(await _emitted(hookfast)) == 1_500


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"price": float("nan")}, "at /data/price"),
        ({"items": [1, {"at": object()}]}, "at /data/items/1/at: object"),
        ("\ud800", "not Unicode"),
        (b"{", "these bytes are not JSON"),
        ({"at": datetime(2026, 1, 1)}, "needs a time zone"),
    ],
)
async def test_data_that_is_not_json_is_not_sent(
    connect: Connect, data: object, words: str
) -> None:
    client = connect("http://127.0.0.1:9")
    with pytest.raises(ValueError, match=words):
        await client.events.emit(TYPE, data)
    with pytest.raises(ValueError, match=f"event 1: .*{words}"):
        await client.events.emit_batch([{"type": TYPE, "data": 1}, {"type": TYPE, "data": data}])


async def test_slow_answers_end_at_the_deadline(
    connect: Connect, hookfast: Any, proxy: FaultyProxy
) -> None:
    client = connect(proxy.url, timeout=0.5, attempt_timeout=0.2)
    faults: list[Fault] = ["hang", "drip"]
    if isinstance(client, AsyncHookfast):  # a thread cannot be interrupted
        faults.append("drip the head")
    for fault in faults:
        proxy.next(fault, fault, fault, fault)
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimedOut, match="did not answer"):
            await client.events.emit(TYPE, 1)
        assert 0.3 < asyncio.get_running_loop().time() - began < 5.0
        assert len(proxy.requests) in (2, 3)
        proxy.faults.clear()


async def test_a_longer_retry_after_than_is_left_ends_the_call(
    connect: Connect, hookfast: Any, proxy: FaultyProxy
) -> None:
    client = connect(proxy.url, timeout=2.0)
    proxy.next(Answer(503, b'{"detail": "Later.", "code": "overloaded"}', {"Retry-After": "30"}))
    with pytest.raises(Unavailable) as failed:
        await client.events.emit(TYPE, 1)
    assert failed.value.retry_after == 30.0
    assert len(proxy.requests) == 1
