"""A worker's `/metrics`: who may read it, on which port, and for how long a connection lasts."""

from __future__ import annotations

import http.client
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from hookfast.telemetry import metrics_server
from hookfast.telemetry.exposition import has_token, is_local
from hookfast.telemetry.metrics_server import MetricsServer
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


def test_request_needs_the_token_if_one_is_set() -> None:
    with _server(token=TOKEN) as server:
        assert _get(server, Authorization=f"Bearer {TOKEN}") == (200, b"up 1\n")
        assert _get(server)[0] == 401
        assert _get(server, Authorization="Bearer another")[0] == 401
        assert _get(server, Authorization=f"Basic {TOKEN}")[0] == 401


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"])
def test_forwarded_request_is_denied_without_a_token(
    header: str,
) -> None:
    with _server(token=None) as server:
        assert _get(server) == (200, b"up 1\n")
        assert _get(server, **{header: "127.0.0.1"})[0] == 401


def test_foreign_host_name_is_denied_without_a_token() -> None:
    with _server(token=None) as server:
        assert _get(server, Host="attacker.example")[0] == 401
        assert _get(server, Host=f"localhost:{server.port}")[0] == 200
    with _server(token=TOKEN) as server:
        bearer = f"Bearer {TOKEN}"
        assert _get(server, Host="worker-1:9464", Authorization=bearer)[0] == 200


@pytest.mark.parametrize(
    "repeated", [f"Authorization: Bearer {TOKEN}", "Authorization: Bearer another", "Host: a"]
)
def test_repeated_header_is_rejected(repeated: str) -> None:
    # a proxy in front of the worker may have checked the other one
    head = f"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n"
    with (
        _server(token=TOKEN) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection,
    ):
        connection.sendall(f"{head}{repeated}\r\nConnection: close\r\n\r\n".encode())
        assert connection.makefile().readline().startswith("HTTP/1.1 400 ")


def test_blanks_around_a_header_value_are_not_part_of_it() -> None:
    with _server(token=TOKEN) as server:
        assert _get(server, Authorization=f"Bearer {TOKEN} \t")[0] == 200


def test_other_paths_answer_404() -> None:
    with _server(token=None) as server:
        assert _get(server, "/")[0] == 404
        assert _get(server, "/metrics/../etc/passwd")[0] == 404


def test_server_takes_a_free_port_if_its_own_is_taken() -> None:
    with _server(token=None) as first, _server(port=first.port, token=None) as second:
        assert second.port != first.port
        assert _get(first)[0] == _get(second)[0] == 200


@pytest.mark.parametrize(
    ("address", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("10.0.0.1", False), (None, False)],
)
def test_only_unforwarded_requests_from_loopback_are_local(
    address: str | None, local: bool
) -> None:
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
        ("0.0.0.0:9464", False),  # some browsers connect to this machine by it
        ("localhost@attacker.example", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_only_loopback_host_names_are_local(host: str, local: bool) -> None:
    assert is_local("127.0.0.1", host=host, forwarded=False) is local


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "bearer a-toke", "Bearer a-tokén"])
def test_header_without_the_token_is_denied(header: str) -> None:
    assert not has_token(header, TOKEN)


def _connect(server: MetricsServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def test_silent_connection_is_closed_and_not_logged(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Probes and port scanners connect so. The log is lines of JSON, without tracebacks."""
    monkeypatch.setattr(metrics_server, "_REQUEST_SECONDS", 0.05)
    with _server(token=None) as server, _connect(server) as caller:
        assert caller.recv(1) == b""
        assert _get(server)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_reset_connection_is_not_logged(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with _server(token=None) as server:
        with _connect(server) as caller:
            caller.sendall(b"GET ")
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for _ in range(20):
            assert _get(server)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_endless_request_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "_REQUEST_SECONDS", 0.2)
    with _server(token=None) as server, _connect(server) as caller:
        caller.settimeout(0.02)
        give_up = time.monotonic() + PATIENCE
        caller.sendall(b"GET /")
        with suppress(ConnectionError):
            while not _has_ended(caller):
                assert time.monotonic() < give_up, "the request was not cut off"
                caller.sendall(b"x")


def test_metrics_are_answered_beside_connections_that_send_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_server, "_MOST_AT_ONCE", 2)
    with _server(token=None) as server, ExitStack() as opened:
        silent = [opened.enter_context(_connect(server)) for _ in range(20)]
        assert _get(server) == (200, b"up 1\n")
        for connection in silent[:-1]:  # each was closed for another one
            assert connection.recv(1) == b""


def _has_ended(caller: socket.socket) -> bool:
    try:
        return caller.recv(1) == b""
    except TimeoutError:
        return False
