"""The documentation's examples, run as documented, with requests as Hookfast sends them."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.integration.receiver import sent

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
ENVIRONMENT = os.environ | {"HOOKFAST_SECRETS": f"{sent.SECRET} {sent.OLD_SECRET}"}


@contextmanager
def running(*command: str, cwd: Path, **environment: str) -> Iterator[httpx2.Client]:
    """Run an example on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", *command, "--port", str(port)],
        cwd=cwd,
        env=ENVIRONMENT | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as http:
            while True:
                assert process.poll() is None, "the example ended"
                try:
                    answer = http.get("/webhooks", headers={"X-Hook-Challenge": "tnt_1.order"})
                    break
                except httpx2.TransportError:
                    time.sleep(0.05)
            assert answer.headers["X-Hook-Challenge"] == "tnt_1.order"
            yield http
    finally:
        process.terminate()
        process.wait()


def test_the_fastapi_example_processes_each_message_once(tmp_path: Path) -> None:
    body, other = sent.body(amount=7), sent.body("order.invoice.voided")
    books = tmp_path / "books.db"
    command = ("uvicorn", "--app-dir", str(EXAMPLES), "receiver_fastapi:app")
    for attempt in (1, 2):  # the second process remembers the first one's messages
        with running(*command, cwd=tmp_path, BOOKS=str(books)) as http:
            answer = http.post(
                "/webhooks", content=body, headers=sent.headers(body, attempt=attempt)
            )
            assert (answer.status_code, answer.text) == (200, "booked")
            assert ("Idempotent-Replayed" in answer.headers) == (attempt == 2)
            headers = sent.headers(other, message_id="dlv_2", secrets=[sent.OLD_SECRET])
            answer = http.post("/webhooks", content=other, headers=headers)
            assert (answer.status_code, answer.text) == (200, "not for us")
            answer = http.post("/webhooks", content=body + b" ", headers=sent.headers(body))
            assert (answer.status_code, answer.json()["code"]) == (401, "wrong_signature")
            late = sent.headers(body, message_id="dlv_3", seconds_ago=400)
            answer = http.post("/webhooks", content=body, headers=late)
            assert (answer.status_code, answer.json()["code"]) == (401, "timestamp_too_old")
    rows = sqlite3.connect(books)
    assert rows.execute("SELECT * FROM paid").fetchall() == [("in_4711", 7)]
    rows.close()


@pytest.mark.parametrize("shared", [False, True])
def test_the_flask_example_processes_each_message_once(
    tmp_path: Path, redis_server: str, redis_client: object, shared: bool
) -> None:
    body = sent.body()
    captured = sent.headers(body)
    command = ("flask", "--app", str(EXAMPLES / "receiver_flask.py"), "run")
    environment = {"REDIS_URL": f"unix://{redis_server}"} if shared else {}
    for process in (1, 2):
        with running(*command, cwd=tmp_path, **environment) as http:
            answer = http.post("/webhooks", content=body, headers=captured)
            assert (answer.status_code, answer.text) == (200, "thanks for order.invoice.paid")
            # only Redis outlives the process
            assert ("Idempotent-Replayed" in answer.headers) == (shared and process == 2)
            forged = captured | {"X-Hook-Id": "dlv_other"}
            answer = http.post("/webhooks", content=body, headers=forged)
            assert (answer.status_code, answer.json()["code"]) == (503, "replayed")


@pytest.mark.parametrize("name", ["receiver_fastapi.py", "receiver_flask.py"])
def test_an_example_fits_on_a_page(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 80
