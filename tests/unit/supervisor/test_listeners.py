"""The sockets that the commands listen on."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from hookfast.cli.demo.receiver import _listen
from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings
from hookfast.supervisor.listener import listen


@pytest.mark.parametrize("server", ["the API", "the demo's receiver"])
def test_response_body_does_not_wait_for_delayed_acks(tmp_path: Path, server: str) -> None:
    """It would cost 40 ms per request with asyncio's event loop."""
    listener = listen(Settings(home=tmp_path, port=0)) if server == "the API" else _listen(0)
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="an option of Linux")
def test_system_holds_little_of_an_answer_that_is_not_read(tmp_path: Path) -> None:
    """Without a limit, Linux takes 4 MB for each connection."""
    with (
        listen(Settings(home=tmp_path, port=0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
    ):
        accepted, _ = listener.accept()
        with accepted:
            accepted.setblocking(False)
            taken = 0
            with contextlib.suppress(BlockingIOError):
                while taken < 10_000_000:
                    taken += accepted.send(b"x" * 65_536)
            assert taken < 1_000_000
            # and gives up one that the process has closed
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
        assert len(client.recv(1)) == 1


@pytest.mark.parametrize("host", ["api..internal", "h" * 64, "192.0.2.1"])
def test_host_that_cannot_be_listened_on_is_named(tmp_path: Path, host: str) -> None:
    with pytest.raises(Misconfigured, match=f"the API cannot listen on {host}:8080: "):
        listen(Settings(home=tmp_path, host=host))
