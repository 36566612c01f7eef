"""The decorator for Flask, with requests as Hookfast sends them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask, Response
from flask.testing import FlaskClient

from hookfast.receiver import Done, Intake, MemoryStore, Misconfigured, Verifier, Webhook
from hookfast.receiver.flask import view
from tests.integration.receiver import sent

LEASE = timedelta(minutes=5)


class Worker:
    """A handler, its received webhooks, and a client of its view."""

    def __init__(self, **options: Any) -> None:
        self.webhooks: list[Webhook] = []
        self.outcome: Any = None
        app = Flask(__name__)
        self.store = MemoryStore()
        intake = Intake(Verifier(sent.SECRET), store=self.store)
        app.post("/")(view(intake, **options)(self.work))
        self.http: FlaskClient = app.test_client()

    def work(self, webhook: Webhook) -> Any:
        self.webhooks.append(webhook)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def test_a_message_is_processed_once_and_gets_the_same_response_each_time() -> None:
    worker, body = Worker(), sent.body()
    worker.outcome = "booked"
    first = worker.http.post("/", data=body, headers=sent.headers(body))
    again = worker.http.post("/", data=body, headers=sent.headers(body, attempt=2))
    assert (first.status_code, first.text) == (again.status_code, again.text) == (200, "booked")
    assert [webhook.body for webhook in worker.webhooks] == [body]


def test_a_forged_request_never_reaches_the_handler() -> None:
    worker, body = Worker(), sent.body()
    answer = worker.http.post("/", data=body + b" ", headers=sent.headers(body))
    assert answer.status_code == 401
    assert answer.content_type == "application/problem+json"
    assert worker.webhooks == []


@pytest.mark.parametrize(
    ("outcome", "first", "again"),
    [
        (None, (204, ""), (204, "")),
        ("", (204, ""), (204, "")),
        ("grüß", (200, "grüß"), (200, "grüß")),
        (b"booked", (200, "booked"), (200, "booked")),
        ({"ok": True}, (200, '{"ok":true}\n'), (204, "")),
        ([1, "a"], (200, '[1,"a"]\n'), (204, "")),
        (("booked", 201), (201, "booked"), (204, "")),
        (("booked", {"X-Book": "1"}), (200, "booked"), (204, "")),
        (Response("booked", 202), (202, "booked"), (204, "")),
        ((text for text in ("a", "b")), (200, "ab"), (204, "")),
        ("\ud800", (204, ""), (204, "")),
        (("\ud800", 200), (204, ""), (204, "")),
        (("booked", "no status", 1, 2), (204, ""), (204, "")),
        (42, (204, ""), (204, "")),
        ({1, 2}, (204, ""), (204, "")),
        (object(), (204, ""), (204, "")),
    ],
)
def test_work_is_done_once_whatever_its_handler_returns(
    outcome: Any,
    first: tuple[int, str],
    again: tuple[int, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker, body = Worker(), sent.body()
    worker.outcome = outcome
    answers = [worker.http.post("/", data=body, headers=sent.headers(body)) for _ in "12"]
    assert [(one.status_code, one.text) for one in answers] == [first, again]
    assert len(worker.webhooks) == 1
    assert isinstance(worker.store.begin("dlv_1", lease=LEASE), Done)
    unusable = first == (204, "") and outcome not in (None, "")
    assert ("cannot be sent" in caplog.text) == unusable


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (("later", 503), 503),
        (Response(status=503), 503),
        (Response(status=301), 301),
        (RuntimeError("the database is away"), 500),
        (SystemExit(), None),
        ("awaitable", 500),
    ],
)
def test_work_that_is_not_done_is_done_when_the_message_comes_again(
    outcome: Any, status: int | None
) -> None:
    async def book() -> None: ...

    worker, body = Worker(), sent.body()
    worker.outcome = book() if outcome == "awaitable" else outcome
    try:
        answer = worker.http.post("/", data=body, headers=sent.headers(body))
        assert answer.status_code == status
    except SystemExit:
        assert status is None
    if outcome == "awaitable":
        worker.outcome.close()
    worker.outcome = None
    assert worker.http.post("/", data=body, headers=sent.headers(body)).status_code == 204
    assert len(worker.webhooks) == 2


def test_generator_is_rejected_because_calling_it_does_no_work() -> None:
    def handler(webhook: Webhook) -> Iterator[str]:
        yield "booked"

    with pytest.raises(Misconfigured, match="yield"):
        view(Intake(Verifier(sent.SECRET)))(handler)


@pytest.mark.parametrize(("size", "status"), [(1000, 204), (1001, 413)])
def test_a_body_over_the_limit_is_answered_413(size: int, status: int) -> None:
    worker = Worker(max_body_bytes=1000)
    body = sent.body() + b" " * (size - len(sent.body()))
    answer = worker.http.post("/", data=body, headers=sent.headers(body))
    assert answer.status_code == status
    assert len(worker.webhooks) == int(status == 204)
