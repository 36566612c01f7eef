"""A worker's `/metrics`: who may read it, and on which port."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hookfast.telemetry.exposition import MetricsServer, bears, is_local

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
