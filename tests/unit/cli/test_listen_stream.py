"""Reading the event stream however its bytes are split, and the position that is kept in a file."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest
import typer

from hookfast.cli.remote.listen.forward import Forwarder, body_of, is_local_network
from hookfast.cli.remote.listen.stream import EventParser, Message, StreamPosition
from hookfast.errors import InvalidInput, Misconfigured
from hookfast.signing.signature import generate_secret

_STREAM = (
    b"retry: 1000\n: connected\nid: c0\n\n"
    b'id: c1\nevent: event\ndata: {"body":"\xe2\x80\xa8 \\n"}\n\n'
    b": heartbeat\nid: c2\n\n"
    b'id: c3\r\nevent: gap\r\ndata: {"from":"x"}\r\n\r\n'
)


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_messages_are_the_same_however_they_are_cut(size: int) -> None:
    events = EventParser()
    messages = []
    for place in range(0, len(_STREAM), size):
        messages += list(events.feed(_STREAM[place : place + size]))
    assert messages == [
        Message(name="event", cursor="c1", data={"body": "\u2028 \n"}),
        Message(name="gap", cursor="c3", data={"from": "x"}),
    ]
    assert events.last_id == "c3"


def test_an_id_counts_once_its_message_is_complete() -> None:
    """Otherwise a message that is cut off after its id would be lost."""
    events = EventParser("c0")
    assert list(events.feed(b'id: c1\nevent: event\ndata: {"id"')) == []
    assert events.last_id == "c0"
    assert [message.cursor for message in events.feed(b":1}\n\n")] == ["c1"]
    assert events.last_id == "c1"


def test_a_heartbeat_moves_the_id_alone() -> None:
    events = EventParser()
    assert list(events.feed(b": heartbeat\nid: c9\n\n")) == []
    assert events.last_id == "c9"


@pytest.mark.parametrize(
    ("event", "body"),
    [
        ({"body": '{"a":"ï\\u2028"}'}, '{"a":"ï\\u2028"}'.encode()),
        ({"body_base64": "//4A"}, b"\xff\xfe\x00"),
    ],
)
def test_the_body_comes_out_byte_for_byte(event: dict[str, str], body: bytes) -> None:
    assert body_of(event) == body


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.168.1.7", True),
        ("10.0.0.1", True),
        ("fd00::1", True),
        ("1.1.1.1", False),
        ("::ffff:1.1.1.1", False),
        ("2606:4700::1111", False),
        ("169.254.169.254", False),  # where clouds keep their credentials
        ("fe80::1", False),
    ],
)
def test_local_network_is_this_machine_and_private_networks(address: str, near: bool) -> None:
    assert is_local_network(ip_address(address)) is near


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:3000", "ftp://localhost/", "http://", "http://u:p@localhost/", "http://[x/"),
        *("http://local..host/", f"http://{'h' * 64}.example/"),
    ],
)
def test_invalid_forward_url_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput):
        Forwarder(url, secret=generate_secret(), allow_remote=True)


def test_a_remote_server_has_to_be_allowed() -> None:
    with pytest.raises(InvalidInput, match="--allow-remote"):
        Forwarder("http://1.1.1.1/hooks", secret=generate_secret(), allow_remote=False)
    Forwarder("http://1.1.1.1/hooks", secret=generate_secret(), allow_remote=True)


@pytest.mark.parametrize(
    ("since", "cursor", "is_time"),
    [
        (None, None, False),
        ("5m", None, True),
        ("2026-11-20T11:15:00Z", None, True),
        ("evt_" + "0" * 32, "evt_" + "0" * 32, False),
        ("MS4xLjIuMw", "MS4xLjIuMw", False),
    ],
)
def test_listening_begins_at_the_given_position(
    since: str | None, cursor: str | None, is_time: bool
) -> None:
    place = StreamPosition.load(None, url="http://a", since=since)
    assert place.cursor == cursor
    assert (place.since is not None) == is_time


def test_invalid_position_is_rejected() -> None:
    with pytest.raises(typer.BadParameter):
        StreamPosition.load(None, url="http://a", since="yesterday!")


def test_resume_file_keeps_the_position_of_one_service(tmp_path: Path) -> None:
    file = tmp_path / "place.json"
    StreamPosition.load(file, url="http://a", since="5m").advance("MS4xLjIuMw")
    assert StreamPosition.load(file, url="http://a", since="5m").cursor == "MS4xLjIuMw"
    with pytest.raises(Misconfigured, match="belongs to http://a"):
        StreamPosition.load(file, url="http://b", since=None)
    file.write_text("{}")
    with pytest.raises(Misconfigured, match="was not written by"):
        StreamPosition.load(file, url="http://a", since=None)
    assert [path.name for path in tmp_path.iterdir()] == ["place.json"]
