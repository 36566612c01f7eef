"""The decorator for Flask, with requests as Hookfast sends them."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask, Response
from flask.testing import FlaskClient

from hookfast.receiver import Intake, MemoryStore, Verifier, Webhook
from hookfast.receiver.flask import view
from tests.integration.receiver import sent


class Worker:
    """A handler, its received webhooks, and a client of its view."""

    def __init__(self, **options: Any) -> None:
        self.webhooks: list[Webhook] = []
        self.outcome: Any = None
        app = Flask(__name__)
        intake = Intake(Verifier(sent.SECRET), store=MemoryStore())
        app.post("/")(view(intake, **options)(self.work))
        self.http: FlaskClient = app.test_client()

    def work(self, webhook: Webhook) -> Any:
        self.webhooks.append(webhook)
        if isinstance(self.outcome, Exception):
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


def test_a_failed_handler_gets_the_message_again() -> None:
    worker, body = Worker(), sent.body()
    worker.outcome = RuntimeError("the database is away")
    assert worker.http.post("/", data=body, headers=sent.headers(body)).status_code == 500
    worker.outcome = Response(status=503)
    assert worker.http.post("/", data=body, headers=sent.headers(body)).status_code == 503
    worker.outcome = Response(status=202)
    assert worker.http.post("/", data=body, headers=sent.headers(body)).status_code == 202
    assert worker.http.post("/", data=body, headers=sent.headers(body)).status_code == 204
    assert len(worker.webhooks) == 3


@pytest.mark.parametrize(("size", "status"), [(1000, 204), (1001, 413)])
def test_a_body_over_the_limit_is_answered_413(size: int, status: int) -> None:
    worker = Worker(max_body_bytes=1000)
    body = sent.body() + b" " * (size - len(sent.body()))
    answer = worker.http.post("/", data=body, headers=sent.headers(body))
    assert answer.status_code == status
    assert len(worker.webhooks) == int(status == 204)
