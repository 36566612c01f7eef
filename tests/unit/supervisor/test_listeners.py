"""The sockets that the commands listen on."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hookfast.cli.demo.receiver import _listen
from hookfast.errors import Misconfigured
from hookfast.settings.settings import Settings
from hookfast.supervisor.listener import listen


@pytest.mark.parametrize("of", ["the API", "the demo's receiver"])
def test_an_answers_body_does_not_wait_for_its_head_to_be_acknowledged(
    tmp_path: Path, of: str
) -> None:
    """40 ms of each request, where the event loop is asyncio's."""
    listener = listen(Settings(home=tmp_path, port=0)) if of == "the API" else _listen(0)
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize("host", ["api..internal", "h" * 64, "192.0.2.1"])
def test_a_host_that_is_none_of_this_machines_is_told_in_a_sentence(
    tmp_path: Path, host: str
) -> None:
    with pytest.raises(Misconfigured, match=f"the API cannot listen on {host}:8080: "):
        listen(Settings(home=tmp_path, host=host))
