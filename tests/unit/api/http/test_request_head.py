"""Which heads of requests are rejected, and what is cut off their header fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.request_head import head_problem, trimmed

HOST = (b"host", b"hooks.example.com")


def rejection(*fields: tuple[bytes, bytes], version: str = "1.1") -> tuple[int, str] | None:
    """Return the status and the named field of the problem, None without a problem."""
    problem = head_problem({"http_version": version, "headers": list(fields)})
    return problem and (problem.status, problem.errors[0].pointer if problem.errors else "")


@pytest.mark.parametrize(
    "host",
    [
        *(b"", b"localhost", b"hooks.example.com:8443", b"10.0.0.1:80", b"[::1]", b"[fe80::1]:80"),
        *(b"my_host", b"xn--mller-kva.example", b"a:", b"A.example."),
    ],
)
def test_every_host_and_port_is_accepted(host: bytes) -> None:
    assert rejection((b"host", host)) is None


@pytest.mark.parametrize(
    "host",
    [
        *(b"a.example/v1", b"http://a.example", b"user@a.example", b"a.example:80x", b"a:b:c"),
        *(b"a b", b"a.example?x", b"a.example#x", b"[::1", b"a\\b", b"a.example, b.example"),
        "müller.example".encode(),
    ],
)
def test_host_with_anything_else_is_rejected(host: bytes) -> None:
    assert rejection((b"host", host)) == (400, "Host")


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "Authorization", "Content-Type", "Content-Length", "Idempotency-Key"),
        *("Last-Event-ID", "Sec-Fetch-Site", "Sec-Fetch-Dest"),
    ],
)
@pytest.mark.parametrize("second", [b"1", b"2"])
def test_field_that_may_occur_once_is_rejected_when_it_occurs_twice(
    name: str, second: bytes
) -> None:
    field = name.lower().encode()
    fields = [(field, b"1"), (b"x-other", b"1"), (field, second)]
    host = [] if name == "Host" else [HOST]
    assert rejection(*host, *fields) == (400, name)
    assert rejection(*host, *fields[:2]) is None


def test_list_may_occur_in_several_fields() -> None:
    fields = [(name, b"a") for name in (b"accept", b"x-forwarded-for", b"cookie", b"x-custom")]
    assert rejection(HOST, *fields, *fields) is None


@pytest.mark.parametrize(
    ("version", "fields", "expected"),
    [
        ("1.1", [], (400, "Host")),
        ("1.0", [], None),
        ("1.0", [HOST], None),
        ("2.0", [HOST], (505, "")),
        ("0.9", [HOST], (505, "")),
        ("1.1", [HOST, (b"transfer-encoding", b"chunked")], None),
        ("1.1", [HOST, (b"transfer-encoding", b"Chunked")], None),
        ("1.0", [HOST, (b"transfer-encoding", b"chunked")], (400, "Transfer-Encoding")),
        ("1.1", [HOST, (b"transfer-encoding", b"gzip, chunked")], (501, "")),
        (
            "1.1",
            [HOST, (b"transfer-encoding", b"gzip"), (b"transfer-encoding", b"chunked")],
            (501, ""),
        ),
        ("1.1", [HOST, (b"transfer-encoding", b"chunked, chunked")], (501, "")),
        ("1.1", [HOST, (b"transfer-encoding", b"identity")], (501, "")),
    ],
)
def test_head_that_http_does_not_allow_is_rejected(
    version: str, fields: list[tuple[bytes, bytes]], expected: tuple[int, str] | None
) -> None:
    assert rejection(*fields, version=version) == expected


BLANKS = st.text(" \t", max_size=3).map(str.encode)


@given(BLANKS, st.binary().filter(lambda value: value == value.strip(b" \t")), BLANKS)
def test_white_space_around_a_value_is_not_part_of_it(
    before: bytes, value: bytes, after: bytes
) -> None:
    assert trimmed([(b"x", before + value + after)]) == [(b"x", value)]
