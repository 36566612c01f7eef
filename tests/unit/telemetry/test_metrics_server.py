"""A worker's `/metrics`: who may read it, and on which port."""

from __future__ import annotations

import http.client
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from hookfast.telemetry import exposition
from hookfast.telemetry.exposition import MetricsServer, bears, is_local
from tests.support.waiting import PATIENCE

TOKEN = "a-token"


@contextmanager
def _server(
    *, host: str = "127.0.0.1", port: int = 0, token: str | None
) -> Iterator[MetricsServer]:
    server = MetricsServer(lambda: b"up 1\n", host=host, port=port, token=token)
    try:
        yield server
    finally:
        server.close()


def _get(server: MetricsServer, path: str = "/metrics", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_with_a_token_it_wants_that_and_nothing_else() -> None:
    with _server(token=TOKEN) as server:
        assert _get(server, Authorization=f"Bearer {TOKEN}") == (200, b"up 1\n")
        assert _get(server)[0] == 401
        assert _get(server, Authorization="Bearer another")[0] == 401
        assert _get(server, Authorization=f"Basic {TOKEN}")[0] == 401


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"])
def test_without_one_it_answers_this_machine_but_nobody_whom_a_proxy_passes_on(
    header: str,
) -> None:
    with _server(token=None) as server:
        assert _get(server) == (200, b"up 1\n")
        assert _get(server, **{header: "127.0.0.1"})[0] == 401


def test_without_one_it_answers_no_page_whose_name_resolves_to_this_machine() -> None:
    with _server(token=None) as server:
        assert _get(server, Host="attacker.example")[0] == 401
        assert _get(server, Host=f"localhost:{server.port}")[0] == 200
    with _server(token=TOKEN) as server:
        bearer = f"Bearer {TOKEN}"
        assert _get(server, Host="worker-1:9464", Authorization=bearer)[0] == 200


def test_there_is_nothing_else_to_read() -> None:
    with _server(token=None) as server:
        assert _get(server, "/")[0] == 404
        assert _get(server, "/metrics/../etc/passwd")[0] == 404


def test_it_takes_a_free_port_when_its_own_is_taken() -> None:
    with _server(token=None) as first, _server(port=first.port, token=None) as second:
        assert second.port != first.port
        assert _get(first)[0] == _get(second)[0] == 200


@pytest.mark.parametrize(
    ("address", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("10.0.0.1", False), (None, False)],
)
def test_this_machine_is_loopback(address: str | None, local: bool) -> None:
    assert is_local(address, host="127.0.0.1:9464", forwarded=False) is local
    assert not is_local(address, host="127.0.0.1:9464", forwarded=True)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("LOCALHOST:9464", True),
        ("127.0.0.1", True),
        ("127.8.8.8:9464", True),
        ("[::1]:9464", True),
        ("attacker.example:9464", False),
        ("localhost.attacker.example", False),
        ("127.0.0.1.attacker.example", False),
        ("10.0.0.1:9464", False),
        ("0.0.0.0:9464", False),  # some browsers take it for this machine
        ("localhost@attacker.example", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_a_name_that_anybody_may_give_this_machine_is_not_its_own(host: str, local: bool) -> None:
    assert is_local("127.0.0.1", host=host, forwarded=False) is local


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "bearer a-toke", "Bearer a-tokén"])
def test_what_is_no_bearer_of_the_token(header: str) -> None:
    assert not bears(header, TOKEN)


def _connect(server: MetricsServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def test_a_caller_that_says_nothing_is_let_go_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As probes and port scanners do. The log is lines of JSON, and takes no traceback."""
    monkeypatch.setattr(exposition, "_REQUEST_SECONDS", 0.05)
    with _server(token=None) as server, _connect(server) as caller:
        assert caller.recv(1) == b""
        assert _get(server)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_a_caller_that_resets_the_connection_leaves_no_word(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with _server(token=None) as server:
        with _connect(server) as caller:
            caller.sendall(b"GET ")
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for _ in range(20):
            assert _get(server)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_a_caller_that_goes_on_for_ever_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "_REQUEST_SECONDS", 0.2)
    with _server(token=None) as server, _connect(server) as caller:
        caller.settimeout(0.02)
        give_up = time.monotonic() + PATIENCE
        caller.sendall(b"GET /")
        with suppress(ConnectionError):
            while not _has_ended(caller):
                assert time.monotonic() < give_up, "it may go on for ever"
                caller.sendall(b"x")


def test_so_many_callers_are_served_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "_MOST_AT_ONCE", 2)
    with _server(token=None) as server, _connect(server), _connect(server) as second:
        assert _get(server)[0] == 503
        second.close()
        _until_answered(server)


def _has_ended(caller: socket.socket) -> bool:
    try:
        return caller.recv(1) == b""
    except TimeoutError:
        return False


def _until_answered(server: MetricsServer) -> None:
    give_up = time.monotonic() + PATIENCE
    while _get(server)[0] != 200:  # the server has not seen that one has gone
        assert time.monotonic() < give_up
