"""The chunked transfer coding, against its grammar and for every way in which bytes may arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.sender.chunked import ChunkedBody, InvalidChunk

BLANKS = st.text(" \t", max_size=2)
TOKENS = st.text("az09!#$%&'*+-.^_`|~", min_size=1, max_size=4)
# RFC 9110, section 5.6.4
QUOTED = st.lists(
    st.sampled_from(["a", " ", "\t", ";", "=", ",", '\\"', "\\\\", "\x80", "\xff"]), max_size=6
).map(lambda parts: f'"{"".join(parts)}"')


@st.composite
def extensions(draw: st.DrawFn) -> str:
    """RFC 9112, section 7.1.1."""
    text = ""
    for _ in range(draw(st.integers(0, 2))):
        text += f"{draw(BLANKS)};{draw(BLANKS)}{draw(TOKENS)}"
        if draw(st.booleans()):
            text += f"{draw(BLANKS)}={draw(BLANKS)}{draw(TOKENS | QUOTED)}"
    return text


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body, and one of its encodings."""
    parts = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=4))
    wire = b""
    for part in parts:
        size = draw(st.sampled_from(["{:x}", "{:X}", "0{:x}", "{:020x}"])).format(len(part))
        wire += f"{size}{draw(extensions())}\r\n".encode("latin-1") + part + b"\r\n"
    wire += f"0{draw(extensions())}\r\n".encode("latin-1")
    trailers = st.lists(st.sampled_from([b"X: y\r\n", b"X:\r\n", b" folded\r\n", b"Y:z\n"]))
    return b"".join(parts), wire + b"".join(draw(trailers)) + b"\r\n"


@given(body=chunked(), after=st.binary(max_size=5), cuts=st.lists(st.integers(0, 99)))
def test_every_encoding_is_decoded_and_no_byte_beyond_it_is_taken(
    body: tuple[bytes, bytes], after: bytes, cuts: list[int]
) -> None:
    content, wire = body
    data = wire + after
    chunks, buffer, taken = ChunkedBody(), bytearray(), 0
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        buffer += data[start:end]
        count = chunks.feed(buffer, limit=100_000)
        del buffer[:count]
        taken += count
    assert chunks.complete
    assert (bytes(chunks.content), taken) == (content, len(wire))


@given(body=chunked(), limit=st.integers(0, 200))
def test_no_more_bytes_are_taken_than_the_limit(body: tuple[bytes, bytes], limit: int) -> None:
    content, wire = body
    chunks = ChunkedBody()
    assert chunks.feed(wire, limit=limit) == min(limit, len(wire))
    assert content.startswith(bytes(chunks.content))
    assert chunks.complete == (limit >= len(wire))


@pytest.mark.parametrize(
    "wire",
    [
        b"\r\n",
        b"zz\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b" 1\r\nx\r\n",
        b"1\nx\r\n",  # a line feed alone
        b"1;a\rb\r\nx\r\n",
        b"1;a\0\r\nx\r\n",
        b"1 x\r\nx\r\n",
        b"11111111111111111\r\n",
        b"1\r\nxy\r\n",  # longer than it says
        b"1\r\nx\n",
        b"0\r\nno colon\r\n",
        b"0\r\nX : y\r\n",
        b"0\r\nX: \0\r\n",
    ],
)
def test_body_that_is_not_chunked_is_rejected(wire: bytes) -> None:
    with pytest.raises(InvalidChunk):
        ChunkedBody().feed(wire, limit=100)
