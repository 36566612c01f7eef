"""What is checked before a call is sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from hookfast_client import AsyncHookfast, Hookfast, NewEvent, Unavailable, UnexpectedAnswer
from hookfast_client.answer import Response
from hookfast_client.batch import Batch
from hookfast_client.call import encode_event, get, path
from hookfast_client.json_text import rfc3339
from hookfast_client.url import checked_url, is_local


def test_path_parts_cannot_change_the_path() -> None:
    assert path("deliveries", "a/../b?c#d e") == "/deliveries/a%2F..%2Fb%3Fc%23d%20e"
    for part in ("", ".", ".."):
        with pytest.raises(ValueError, match="is not an id"):
            path("deliveries", part)


def test_a_query_has_what_is_given() -> None:
    query = {
        "status": ["dead", "gone"],
        "limit": 5,
        "flag": True,
        "until": None,
        "since": datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))),
    }
    assert get("/deliveries", query).parameters == (
        ("status", "dead"),
        ("status", "gone"),
        ("limit", "5"),
        ("flag", "true"),
        ("since", "2026-01-02T02:00:00Z"),
    )


def test_times_need_a_zone() -> None:
    assert rfc3339(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00Z"
    with pytest.raises(ValueError, match="needs a time zone"):
        encode_event("a.b.c", 1, deliver_at=datetime(2026, 1, 2))


def test_an_event_has_only_the_members_that_are_given() -> None:
    assert encode_event("a.b.c", None) == b'{"type":"a.b.c","data":null}'
    event = encode_event(
        "a.b.c", b" [1] ", tenant_id="tnt_1", ordering_key="o", deliver_at="2026-01-01T00:00:00Z"
    )
    assert json.loads(event) == {
        "type": "a.b.c",
        "tenant_id": "tnt_1",
        "ordering_key": "o",
        "deliver_at": "2026-01-01T00:00:00Z",
        "data": [1],
    }
    assert event.endswith(b'"data": [1] }')


def test_bytes_cannot_add_members() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        encode_event("a.b.c", b'1,"tenant_id":"tnt_2"')


def _batch(*events: Any, key: str | None = None) -> Batch:
    return Batch(events, idempotency_key=key)


def test_events_of_a_batch_have_keys() -> None:
    events: list[NewEvent] = [
        {"type": "a.b.c", "data": 1},
        {"type": "a.b.c", "data": 2, "idempotency_key": "own"},
    ]
    [call] = [next(Batch(events, idempotency_key="run").calls())]
    sent = json.loads(call.body or b"")["events"]
    assert [event["idempotency_key"] for event in sent] == ["run:0", "own"]
    first, second = (json.loads(next(_batch(*events).calls()).body or b"") for _ in range(2))
    assert first != second


def test_events_that_the_server_had_no_time_for_are_sent_again() -> None:
    batch = _batch(*({"type": "a.b.c", "data": number} for number in range(4)))
    accepted = {"id": "evt_1", "type": "a.b.c", "created_at": "", "deliveries": 0, "status": 202}
    late = {"status": 503, "problem": {"detail": "No time.", "code": "unavailable"}}
    answers = [[accepted, late, accepted, late], [accepted, accepted, late], [late]]
    sent = []
    for call, answer in zip(batch.calls(), answers, strict=True):
        sent.append([event["data"] for event in json.loads(call.body or b"")["events"]])
        batch.done(Response(202, {}, b"", {"data": answer}))
    assert sent == [[0, 1, 2, 3], [1, 2, 3], [3]]
    assert [item.error is None for item in batch.result] == [True, True, True, False]
    assert isinstance(batch.result.items[3].error, Unavailable)


def test_a_result_for_each_event_is_expected() -> None:
    batch = _batch({"type": "a.b.c", "data": 1})
    for value in ({}, {"data": []}, {"data": "x"}):
        with pytest.raises(UnexpectedAnswer):
            batch.done(Response(202, {}, b"", value))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"type": "a.b.c"}, "event 0 has no 'data'"),
        ({"data": 1}, "event 0 has no 'type'"),
        ({"type": "a.b.c", "data": 1, "tenant": "x"}, "event 0: .*'tenant'"),
        ({"type": "a.b.c", "data": 1, "idempotency_key": "a b"}, "event 0: an idempotency key is"),
        ({"type": "a.b.c", "data": 1, "idempotency_key": ""}, "event 0: an idempotency key is"),
        ({"type": "a.b.c", "data": {1}}, "event 0: .*set has no form"),
    ],
)
def test_a_batch_with_a_wrong_event_is_not_sent(event: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _batch(event)


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8080", "ftp://127.0.0.1", "http://", "http://[", "http://h:port", "x", ""),
        *("http://h/?a=b", "http://h/#a", "http://hooks..example", f"http://{'h' * 64}.example"),
    ],
)
def test_an_invalid_url_is_named_in_the_error(url: str) -> None:
    for kind in (Hookfast, AsyncHookfast):
        with pytest.raises(ValueError, match="is not the URL of a Hookfast") as failed:
            kind(url, "hf_key")
        assert repr(url) in str(failed.value)


@pytest.mark.parametrize("url", ["https://me:hunter2@example.com", "https://me:hunter2@[x"])
def test_a_password_in_a_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as failed:
        Hookfast(url, "hf_key")
    assert "hunter2" not in str(failed.value)


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_a_url_may_end_in_the_version_of_the_api(ending: str) -> None:
    assert checked_url(f"https://hooks.example.com/at{ending}") == "https://hooks.example.com/at"


def test_this_machine_is_not_behind_a_proxy() -> None:
    local = ("http://localhost:1", "http://127.9.9.9", "http://[::1]:80/v1")
    assert all(map(is_local, local))
    assert not any(map(is_local, ("https://example.com", "http://10.0.0.1", "http://localhost.x")))
