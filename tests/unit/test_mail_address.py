"""Mail addresses: what is accepted can be sent, exactly as written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.mail_address import ascii_address, parse_mailbox
from tests.support.owner_mail import read, written


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("ops@example.com", "ops@example.com"),
        ("First.Last+tag@Example.COM", "First.Last+tag@example.com"),
        ("!#$%&'*+-/=?^_`{|}~@example.com", "!#$%&'*+-/=?^_`{|}~@example.com"),
        ("a@localhost", "a@localhost"),
        ("ops@mail.corp.local", "ops@mail.corp.local"),
        ("ops@müller.example", "ops@xn--mller-kva.example"),
        ("ops@MÜLLER.example", "ops@xn--mller-kva.example"),
        ("ops@xn--mller-kva.example", "ops@xn--mller-kva.example"),
        ("ops@例え.テスト", "ops@xn--r8jz45g.xn--zckzah"),
        ("ops@1and1.example", "ops@1and1.example"),
        ("a" * 64 + "@b.c", "a" * 64 + "@b.c"),
        ("a@" + "b" * 63 + ".example", "a@" + "b" * 63 + ".example"),
    ],
)
def test_address_is_sent_in_ascii(text: str, sent: str) -> None:
    assert ascii_address(text) == sent


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "@",
            "a",
            "a@",
            "@b.c",
            "a@b@c.d",
            "a b@c.d",
            "a@b c.d",
            " a@b.c",
            "a@b.c ",
            "a@b.c\n",
        ),
        *(".a@b.c", "a.@b.c", "a..b@c.d", "a@b..c", "a@.b.c", "a@b.c."),
        *("a,b@c.d", '"a b"@c.d', "a(x)@b.c", "<a@b.c>", "mailto:a@b.c", "a@b, c@d.e"),
        *("ü@b.c", "a@b_c.d", "a@-b.c", "a@b-.c", "a@💩.example", "a@xn--zzzz.example"),
        *(
            "a@127.0.0.1",
            "a@[127.0.0.1]",
            "a@123",
            "a@b。c",
            "a@\N{FULLWIDTH LATIN SMALL LETTER B}.c",
        ),
        *("a" * 65 + "@b.c", "a@" + "b" * 64 + ".c", "a" * 60 + "@" + ".".join(["b" * 60] * 4)),
        *("=?utf-8?q?a?=@b.c", "a\x00@b.c", "a@b.c\r\nBcc: d@e.f", "a\u2028@b.c"),
    ],
)
def test_text_that_is_not_one_address_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        ascii_address(text)


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("hooks@example.com", "", "hooks@example.com"),
        ("<hooks@example.com>", "", "hooks@example.com"),
        ("Hooks <hooks@example.com>", "Hooks", "hooks@example.com"),
        ("Grüße, GmbH & Co. <hooks@example.com>", None, None),
        ('"Grüße, GmbH & Co." <hooks@example.com>', "Grüße, GmbH & Co.", "hooks@example.com"),
        (r'"The \"Hooks\" \\ team"<hooks@example.com>', r'The "Hooks" \ team', "hooks@example.com"),
        ("J. Smith <hooks@müller.example>", "J. Smith", "hooks@xn--mller-kva.example"),
        ("Hooks h@example.com", None, None),
        ("Hooks <hooks>", None, None),
        ("Hooks <a@b..c>", None, None),
        ("Hooks <a@b.c> x", None, None),
        ("a@b, c@d.e", None, None),
        ("A <a@b.c>, C <c@d.e>", None, None),
        ("Hooks\r\nBcc: x <a@b.c>", None, None),
        ('"Hooks <a@b.c>', None, None),
        ("", None, None),
    ],
)
def test_sender_is_one_address_with_or_without_a_name(
    text: str, name: str | None, address: str | None
) -> None:
    if address is None:
        with pytest.raises(ValueError, match=r"must|quotes"):
            parse_mailbox(text)
    else:
        parsed = parse_mailbox(text)
        assert (parsed.display_name, parsed.addr_spec) == (name, address)


# `=?` is likely, because it has a meaning in header fields
ATOM = st.lists(
    st.sampled_from(["=?", "?=", "=?utf-8?q?a?=", *"abcXYZ019!#$%&'*+/=?^_`{|}~-"]),
    min_size=1,
    max_size=8,
).map("".join)
LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)


@given(st.lists(ATOM, min_size=1, max_size=4).map(".".join), st.lists(LABEL, max_size=3))
def test_every_accepted_address_gets_the_mail(local: str, labels: list[str]) -> None:
    address = f"{local}@{'.'.join([*labels, 'example'])}"
    try:
        sent = ascii_address(address)
    except ValueError:
        return
    message = written(sender=f"Hooks <{address}>", to=address)
    as_read = read(message)
    for header in ("From", "To"):
        assert [one.addr_spec for one in message[header].addresses] == [sent]
        assert [one.addr_spec for one in as_read[header].addresses] == [sent]
