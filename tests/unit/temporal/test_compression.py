"""Requests to Temporal are compressed only where they leave the network."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from temporalio.service import GrpcCompression

from hookfast.temporal import compression, connection
from hookfast.temporal.compression import compression_for, is_same_network

pytestmark = pytest.mark.anyio

GZIP, NONE = GrpcCompression.GZIP, GrpcCompression.NONE
NAMES: dict[str, Sequence[str]] = {
    "temporal": ("172.20.0.5",),
    "temporal.hookfast.svc.cluster.local": ("fd00:1::7", "10.96.0.7"),
    "frontend.example.com": ("203.0.113.7",),
    "mixed.example.com": ("10.0.0.7", "203.0.113.7"),
    "a.tmprl.cloud": ("52.4.5.6",),
    "127.example.com": ("203.0.113.7",),
    "localhost.example.com": ("203.0.113.7",),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts that were looked up, of which only NAMES and literals are known."""
    asked: list[str] = []
    literal = socket.getaddrinfo

    def getaddrinfo(host: str, port: None, **options: Any) -> list[Any]:
        asked.append(host)
        if host in NAMES:
            return [(None, None, None, "", (address, 0)) for address in NAMES[host]]
        return literal(host, port, flags=socket.AI_NUMERICHOST, **options)

    monkeypatch.setattr(compression.socket, "getaddrinfo", getaddrinfo)
    return asked


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("10.1.2.3", True),
        ("172.16.0.1", True),
        ("172.31.255.255", True),
        ("172.32.0.1", False),
        ("192.168.1.1", True),
        ("192.169.1.1", False),
        ("169.254.7.7", True),
        ("100.64.0.1", False),
        ("203.0.113.7", False),
        ("8.8.8.8", False),
        ("::1", True),
        ("::2", False),
        ("fd12:3456::1", True),
        ("fe80::1%eth0", True),
        ("2001:db8::1", False),
        ("64:ff9b::a00:1", False),
        ("::ffff:10.0.0.1", True),
        ("::ffff:8.8.8.8", False),
    ],
)
def test_loopback_private_and_link_local_addresses_are_the_same_network(
    address: str, same: bool
) -> None:
    assert is_same_network(address) is same


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("127.0.0.1:7233", NONE),
        ("[::1]:7233", NONE),
        ("10.0.0.7:7233", NONE),
        ("[fd00::7]:7233", NONE),
        ("52.4.5.6:7233", GZIP),
        ("[2001:db8::7]:7233", GZIP),
        ("temporal:7233", NONE),
        ("Temporal:7233", NONE),
        ("http://temporal:7233", NONE),
        ("temporal.hookfast.svc.cluster.local:7233", NONE),
        ("frontend.example.com:7233", GZIP),
        ("mixed.example.com:7233", GZIP),
        ("a.tmprl.cloud:7233", GZIP),
        ("127.example.com:7233", GZIP),  # a name, not loopback
        ("localhost.example.com:7233", GZIP),
        ("unknown.example.com:7233", GZIP),
        (f"{'a' * 64}.example.com:7233", GZIP),  # a label is too long for any name
        ("[::1:7233", GZIP),
        (":7233", GZIP),
        ("", GZIP),
    ],
)
async def test_auto_compresses_what_leaves_the_network(
    asked: list[str], target: str, expected: GrpcCompression
) -> None:
    assert await compression_for(target, "auto") is expected


async def test_on_and_off_decide_without_asking_dns(asked: list[str]) -> None:
    assert await compression_for("127.0.0.1:7233", "on") is GZIP
    assert await compression_for("a.tmprl.cloud:7233", "off") is NONE
    assert asked == []


async def test_silent_name_server_delays_neither_the_loop_nor_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = threading.Event()

    def never(*_: object, **__: object) -> list[Any]:
        answers.wait(30)
        return []

    monkeypatch.setattr(compression.socket, "getaddrinfo", never)
    monkeypatch.setattr(compression, "_LOOKUP_SECONDS", 0.1)
    try:
        async with asyncio.timeout(5):
            assert await compression_for("temporal:7233", "auto") is GZIP
    finally:
        answers.set()


def test_silent_name_server_does_not_keep_a_process_from_ending() -> None:
    program = """
import asyncio, socket, threading
from hookfast.temporal import compression
socket.getaddrinfo = lambda *_, **__: threading.Event().wait()
compression._LOOKUP_SECONDS = 0.1
asyncio.run(compression.compression_for("temporal:7233", "auto"))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


@pytest.mark.parametrize(
    ("address", "setting", "expected"),
    [
        ("127.0.0.1:1", "auto", NONE),
        ("127.0.0.1:1", "on", GZIP),
        ("52.4.5.6:1", "auto", GZIP),
        ("52.4.5.6:1", "off", NONE),
    ],
)
async def test_clients_have_the_compression_of_their_address(
    monkeypatch: pytest.MonkeyPatch, address: str, setting: Any, expected: GrpcCompression
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    client = await connection.connect(setting, lazy=True)
    assert client.service_client.config.grpc_compression is expected
