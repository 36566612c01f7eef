"""Heads of requests and responses: against h11, and for what h11 does not promise."""

from __future__ import annotations

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookfast.sender.http1 import (
    END_OF_HEAD,
    Head,
    InvalidRequest,
    InvalidResponse,
    parse_response,
    request_head,
)

# Parts of heads: valid, almost valid, and neither.
STATUS_LINES = st.sampled_from(
    [
        *(
            "HTTP/1.1 200 OK",
            "HTTP/1.0 500 x",
            "HTTP/1.1 204",
            "HTTP/1.1 304 ",
            "HTTP/1.2 299 \xff",
        ),
        *("HTTP/1.1 102 P", "HTTP/1.1 101 S", "HTTP/1.1 099 x", "HTTP/1.1 1000", "HTTP/1.1 200OK"),
        *("HTTP/1.1  200", "http/1.1 200", "HTTP/1.1 200 a\0b", "HTTP/1.1 200 a\x0bb", ""),
        *("HTTP/1.1 200\t", "HTTP/1.1 2x0", "HTTP/1.1 200 \t ", "HTTP/1.1 999 a\rb"),
        *("HTTP/1.11 200", "HTTP/1.1 200 OK"),
    ]
)
LINES = st.one_of(
    st.sampled_from(
        [
            *("Content-Length: 2", "content-length:2", "Content-Length: 3", "Content-Length: 2,2"),
            *("Content-Length: 2 , 2", "Content-Length: 2, 3", "Content-Length: +2"),
            *("Content-Length:", "Content-Length: 02", "Content-Length: ,", "Content-Length: 2,"),
            *(f"Content-Length: {'9' * 20}", f"Content-Length: {'9' * 21}"),
            *("Transfer-Encoding: chunked", "transfer-encoding:CHUNKED ", "Transfer-Encoding: x"),
            *("Connection: close", "connection: keep-alive , Close", "Connection: closed"),
            *("X: y", "X:", "X:  y \t", "X : y", ": y", "no colon", "X: a:b", "X;: y", "X: a  b"),
            *("X: a\0", "X: a\x0bb", "X: a\rb", "X: \xff\x01", "\xff: x", "\r"),
            *(" folded", "\tfolded ", " "),
        ]
    ),
    st.text(st.characters(max_codepoint=255), max_size=8),
)
SHOWN_OTHERWISE = ("content-length", "transfer-encoding")
ENDS = st.sampled_from(["\r\n", "\n", "\r\r\n", "\r\n", "\r\n"])


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    lines = [draw(STATUS_LINES), *draw(st.lists(LINES, max_size=5))]
    text = "".join(line + draw(ENDS) for line in lines) + draw(st.sampled_from(["\r\n", "\n"]))
    wire = text.encode("latin-1")
    end = END_OF_HEAD.search(wire)  # a line may have been empty
    return wire[: end.end()] if end else wire


def by_h11(head: bytes) -> Head | None:
    """Return how h11 reads a head, None if it rejects it."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=100_000)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(head)
    try:
        answer = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    assert isinstance(answer, h11.Response | h11.InformationalResponse)
    named = dict(answer.headers)
    if answer.status_code in (204, 304):
        length, chunked = 0, False
    else:
        chunked = b"transfer-encoding" in named
        has_length = b"content-length" in named and not chunked
        length = int(named[b"content-length"]) if has_length else None
    persists = connection.our_state is h11.DONE and (length is not None or chunked)
    headers = [(n.decode(), v.decode("latin-1")) for n, v in answer.headers.raw_items()]
    return Head(answer.status_code, headers, length, chunked, persists)


def _compared(head: Head) -> tuple[object, ...]:
    """Return what has to be the same. h11 shows some headers in another form."""
    headers = [one for one in head.headers if one[0].lower() not in SHOWN_OTHERWISE]
    if head.status < 200:
        return head.status, headers
    return head.status, headers, *head[2:]


@given(heads())
def test_a_response_head_is_read_as_h11_reads_it(head: bytes) -> None:
    expected = by_h11(head)
    if expected is None:
        with pytest.raises(InvalidResponse):
            parse_response(head)
    else:
        assert _compared(parse_response(head)) == _compared(expected)


LONG = {
    "blanks": b"X:" + b" " * 60_000,
    "blanks and tabs": b"X:" + b" \t" * 30_000,
    "one word": b"X: " + b"a" * 60_000,
    "words": b"X: " + b"a " * 30_000,
    "words of two letters": b"X: " + b"ab \t" * 15_000,
    "colons": b"X: " + b":" * 60_000,
    "fields": b"X:y\n" * 15_000 + b"X:",
    "folded lines": b"X:y" + b"\n z" * 20_000,
    "blank folded lines": b"X:y" + b"\n " * 30_000,
    "options": b"Connection: " + b"," * 60_000,
}


@pytest.mark.parametrize("part", LONG.values(), ids=LONG)
def test_no_head_of_64_kib_takes_more_than_linear_time(part: bytes) -> None:
    """Otherwise it runs into the suite's timeout: 60,000 squared steps are minutes."""
    start = b"HTTP/1.1 200 OK\n" + part
    assert parse_response(start + b"\n\n").status == 200
    for end in (b"\0\n\n", b"\r\0\n\n", b"\n\0\n\n", b"\nX\n\n"):
        with pytest.raises(InvalidResponse):
            parse_response(start + end)


FIELDS = [("Host", "a.example:80"), ("X-Tab", "a\tb  c"), ("X-Empty", ""), ("X-Name", "M\xfcller")]
INJECTIONS = ["\r\n", "\n", "\r", "\r\nY: b", "\nY: b", "\r\n\r\n", "\r\n b", "\0", "\x0b", "\x0c"]


def test_a_request_head_has_its_fields_in_order_as_they_are() -> None:
    head = request_head("POST", "/a?b=%20|", FIELDS)
    assert head == (
        b"POST /a?b=%20| HTTP/1.1\r\nHost: a.example:80\r\nX-Tab: a\tb  c\r\nX-Empty: \r\n"
        b"X-Name: M\xfcller\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("X", f"a{injection}b") for injection in INJECTIONS),
        *(("X", f"a{injection}") for injection in INJECTIONS),
        *((f"X{injection}", "a") for injection in INJECTIONS),
        *(("X", " a"), ("X", "a "), ("X", "\u20ac"), ("X", "\ud800")),
        *(
            ("", "a"),
            ("X Y", "a"),
            ("X:", "a"),
            (" X", "a"),
            ("X ", "a"),
            ("\xfc", "a"),
            ("(", "a"),
        ),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_field_that_would_not_arrive_as_it_is_is_rejected(
    name: str, value: str, place: int
) -> None:
    fields = [("Host", "a")]
    fields.insert(place, (name, value))
    with pytest.raises(InvalidRequest) as raised:
        request_head("POST", "/", fields)
    assert str(raised.value) == ""
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("target", ["", "/ ", "/\r\n", "/ HTTP/1.1\r\nX: y", "/\xfc", "/\x7f"])
def test_a_target_that_would_split_the_request_is_rejected(target: str) -> None:
    with pytest.raises(InvalidRequest):
        request_head("GET", target, [("Host", "a")])


@given(
    st.lists(
        st.tuples(st.text(max_size=4), st.text(st.characters(max_codepoint=300), max_size=6)),
        max_size=3,
    )
)
@example([("X", "a\r\nY: b")])
def test_every_request_head_that_is_written_is_one_request_to_h11(
    fields: list[tuple[str, str]],
) -> None:
    try:
        head = request_head("GET", "/", [("Host", "a"), *fields])
    except InvalidRequest:
        return
    server = h11.Connection(h11.SERVER)
    server.receive_data(head)
    request = server.next_event()
    assert isinstance(request, h11.Request)
    sent = [(name.encode(), value.encode("latin-1")) for name, value in fields]
    assert request.headers.raw_items() == [(b"Host", b"a"), *sent]
    assert server.next_event() == h11.EndOfMessage()
    assert server.trailing_data == (b"", False)
