"""The mail server that `HOOKFAST_SMTP_URL` names."""

from __future__ import annotations

import pytest

from hookfast.errors import Misconfigured
from hookfast.mail.smtp_url import parse_smtp_url


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "starttls"),
    [
        ("smtp://mail.example", "mail.example", 25, False, "offered"),
        ("smtp://mail.example:2525/", "mail.example", 2525, False, "offered"),
        ("smtp://user:secret@mail.example", "mail.example", 587, False, "required"),
        ("smtp://user:secret@127.0.0.1", "127.0.0.1", 587, False, "offered"),
        ("smtp://user:secret@[::1]:25", "::1", 25, False, "offered"),
        ("smtp://user:secret@localhost", "localhost", 587, False, "offered"),
        ("smtp://user:secret@mail.example?starttls=never", "mail.example", 587, False, "never"),
        ("smtp://mail.example?starttls=required", "mail.example", 25, False, "required"),
        ("smtps://user:secret@mail.example", "mail.example", 465, True, "required"),
    ],
)
def test_url_names_a_server(url: str, host: str, port: int, tls: bool, starttls: str) -> None:
    server = parse_smtp_url(url)
    assert (server.host, server.port, server.tls, server.starttls) == (host, port, tls, starttls)


def test_user_and_password_are_percent_decoded() -> None:
    server = parse_smtp_url("smtp://hooks%40shop.example:p%2Fs%20%25@mail.example")
    assert (server.username, server.password) == ("hooks@shop.example", "p/s %")
    assert "p/s" not in repr(server)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example:25",
        "http://user:secret@mail.example",
        "smtp://",
        "smtp://user:secret@",
        "smtp://user@mail.example",
        "smtp://:secret@mail.example",
        "smtp://user:secret@mail.example:smtp",
        "smtp://user:secret@mail.example:99999",
        "smtp://user:sec/ret@mail.example",
        "smtp://user:sec#ret@mail.example",
        "smtp://user:sec?ret@mail.example",
        "smtp://user:secret@mail.example/inbox",
        "smtp://user:secret@mail.example?starttls=maybe",
        "smtp://user:secret@mail.example?starttls=",
        "smtp://user:secret@mail.example?starttls=never&starttls=required",
        "smtp://user:secret@mail.example?tls=1",
        "smtps://user:secret@mail.example?starttls=required",
        "smtp://user:secret@[::1",
        # never looked up; the client's own error would look like one of the owner's address
        "smtp://user:secret@mail..example",
        f"smtp://user:secret@{'m' * 64}.example",
    ],
)
def test_invalid_url_is_rejected_without_quoting_it(url: str) -> None:
    with pytest.raises(Misconfigured) as rejected:
        parse_smtp_url(url)
    assert "HOOKFAST_SMTP_URL" in rejected.value.message
    assert "sec" not in rejected.value.message.replace("secure", "")
    assert rejected.value.__cause__ is None
