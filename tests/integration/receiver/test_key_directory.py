"""The key directory, fetched from a real HTTP server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hookfast.receiver import (
    WELL_KNOWN_PATH,
    Answer,
    Intake,
    KeyDirectory,
    KeysUnavailable,
    Misconfigured,
    UnknownKey,
    Verifier,
)
from tests.unit.receiver.signing import BODY, KEY_ID, NOW, jwks, signed


class Sender:
    """A sender that publishes its keys and counts the requests."""

    def __init__(self) -> None:
        self.document = jwks()
        self.status = 200
        self.asked = 0
        self.now = 0.0
        sender = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                sender.asked += 1
                found = sender.status if self.path == WELL_KNOWN_PATH else 404
                self.send_response(found)
                if found == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(sender.document)))
                self.end_headers()
                self.wfile.write(sender.document)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01])
        self._thread.start()

    def directory(self) -> KeyDirectory:
        url = f"http://127.0.0.1:{self._server.server_port}{WELL_KNOWN_PATH}"
        return KeyDirectory(url, allow_http=True, monotonic=lambda: self.now)

    def verifier(self) -> Verifier:
        return Verifier(public_keys=self.directory(), clock=lambda: NOW)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def sender() -> Iterator[Sender]:
    sender = Sender()
    yield sender
    sender.close()


def test_keys_are_fetched_once_for_many_requests(sender: Sender) -> None:
    verifier = sender.verifier()
    for profile in ("rsa", "standard-ed25519", "rsa"):
        verifier.verify(signed(profile), BODY)
    assert sender.asked == 1


def test_keys_are_fetched_again_after_their_max_age(sender: Sender) -> None:
    verifier = sender.verifier()
    verifier.verify(signed("rsa"), BODY)
    sender.document = jwks(kid="new")
    sender.now = 3601.0
    with pytest.raises(UnknownKey):  # removed from the directory
        verifier.verify(signed("rsa"), BODY)
    verifier.verify(signed("rsa") | {"X-Webhook-Key-Id": "new"}, BODY)


def test_a_new_key_is_found_at_once_and_forged_ids_cause_no_flood(
    sender: Sender,
) -> None:
    verifier = sender.verifier()
    verifier.verify(signed("rsa"), BODY)
    sender.now = 60.0
    sender.document = jwks(kid="new")
    verifier.verify(signed("rsa") | {"X-Webhook-Key-Id": "new"}, BODY)
    for n in range(10):
        with pytest.raises(UnknownKey):
            verifier.verify(signed("rsa") | {"X-Webhook-Key-Id": f"forged-{n}"}, BODY)
    assert sender.asked == 2


def test_cached_keys_are_used_for_a_day_while_the_sender_is_unreachable(sender: Sender) -> None:
    verifier = sender.verifier()
    verifier.verify(signed("rsa"), BODY)
    sender.status = 500
    sender.now = 86_400.0
    verifier.verify(signed("rsa"), BODY)
    assert sender.asked == 2
    sender.now = 86_500.0
    with pytest.raises(KeysUnavailable):
        verifier.verify(signed("rsa"), BODY)


@pytest.mark.parametrize("status", [500, 404, 302])
def test_without_keys_requests_are_answered_503(sender: Sender, status: int) -> None:
    sender.status = status
    verifier = sender.verifier()
    answer = Intake(verifier).open(signed("rsa"), BODY)
    assert (answer.status, b"keys_unavailable" in answer.body) == (503, True)  # type: ignore[union-attr]
    assert sender.asked == 1
    sender.status = 200
    sender.now = 60.0
    verifier.verify(signed("rsa"), BODY)


@pytest.mark.parametrize(
    "document",
    [b"<html>", b'{"keys": []}', b'{"keys": [{"kty": [], "alg": {}}]}', b"[" * 300_000],
)
def test_a_response_that_is_not_a_key_set_leaves_the_keys_in_use(
    sender: Sender, document: bytes
) -> None:
    directory = sender.directory()
    assert directory.rsa(KEY_ID) is not None
    sender.document = document
    sender.now = 3601.0
    assert directory.rsa(KEY_ID) is not None
    assert sender.asked == 2


@pytest.mark.parametrize(
    ("status", "document", "why"),
    [
        (404, b"", "HTTP Error 404"),
        (200, b"<html>", "not JSON"),
        (200, jwks(n="AQAB"), "2048 to 8192 bits"),
    ],
    ids=["away", "no key set", "a broken key"],
)
def test_the_log_says_why_there_are_no_keys_and_the_response_does_not(
    sender: Sender, caplog: pytest.LogCaptureFixture, status: int, document: bytes, why: str
) -> None:
    sender.status, sender.document = status, document
    answer = Intake(sender.verifier()).open(signed("rsa"), BODY)
    assert isinstance(answer, Answer)
    assert (answer.status, b"see the receiver's log" in answer.body) == (503, True)
    assert why.encode() not in answer.body
    assert [why in message for message in caplog.messages] == [True]


@pytest.mark.parametrize("url", ["http://hooks.example.com/", "file:///etc/passwd", "x"])
def test_a_key_directory_needs_https(url: str) -> None:
    with pytest.raises(Misconfigured, match="https"):
        KeyDirectory(url)


def test_an_unreachable_key_directory_raises_keys_unavailable() -> None:
    directory = KeyDirectory("http://127.0.0.1:4/", allow_http=True, timeout=timedelta(seconds=1))
    with pytest.raises(KeysUnavailable):
        directory.ed25519()
