"""Secrets in answers: in which encodings and places they are masked, and what stays as it is."""

from __future__ import annotations

import base64
import html
import json
import random
import string
from collections.abc import Callable
from textwrap import wrap
from urllib.parse import quote, quote_plus

import pytest

from hookfast.deliveries.evidence import start_of
from hookfast.endpoints.credentials import PUBLIC, Access, Basic, Bearer, OAuth2, TlsIdentity
from hookfast.sender.masking import SecretMask, SecretMasks

SECRET = 'k3y/With+odd "chars" \\& <such>='
PASSWORD = "pässwörd: 😀 & so/on"
LIMIT = 2048


def masked(access: Access, text: str | bytes, *tokens: str, limit: int = LIMIT) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    return SecretMask(access, tokens).start(data, limit)[0].decode()


def header(value: str) -> Access:
    return Access(sealed=(value,))


def json_escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def every_unit(text: str) -> str:
    units = text.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "in capitals": lambda text: text.encode().upper().decode(),
    "in small letters": lambda text: text.encode().lower().decode(),
    "base64": base64_of,
    "base64 without padding": lambda text: base64_of(text).rstrip("="),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 of more, by one": lambda text: base64_of(f"a{text}bc"),
    "base64 of more, by two": lambda text: base64_of(f"ab{text}c"),
    "base64 of more, by three": lambda text: base64_of(f"abc{text}"),
    "base64 for URLs, escaped": lambda text: quote(base64_of(text), safe=""),
    "base64 in JSON of PHP": lambda text: base64_of(text).replace("/", "\\/"),
    "base64 in lines": lambda text: "\n".join(wrap(base64_of(text), 8)),
    "base64 in lines of MIME": lambda text: "\r\n".join(wrap(base64_of(text), 8)),
    "base64 in lines in JSON": lambda text: "\\r\\n".join(wrap(base64_of(text), 8)),
    "base64 in lines that are indented": lambda text: "\n  ".join(wrap(base64_of(text), 8)),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal in capitals": lambda text: text.encode().hex().upper(),
    "percent": lambda text: quote(text, safe=""),
    "percent in small letters": lambda text: quote(text, safe="").replace("%2F", "%2f").lower(),
    "percent, all characters": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "percent, a path": quote,
    "a form": quote_plus,
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "percent three times": lambda text: quote(quote(quote(text, safe=""), safe=""), safe=""),
    "JSON": json_escaped,
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON of PHP": lambda text: json_escaped(text).replace("/", "\\/"),
    "JSON in JSON": lambda text: json_escaped(json_escaped(text)),
    "JSON, all characters": every_unit,
    "JSON, all characters in capitals": lambda text: every_unit(text).upper().replace("\\U", "\\u"),
    "JavaScript": lambda text: "".join(f"\\u{{{ord(one):x}}}" for one in text),
    "a bytes literal": lambda text: repr(text.encode())[2:-1],
    "HTML": lambda text: html.escape(text),
    "HTML with other names": lambda text: (
        html.escape(text)
        .replace("&#x27;", "&#39;")
        .replace("&quot;", "&#34;")
        .replace("+", "&plus;")
        .replace("/", "&sol;")
    ),
    "HTML, decimal": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "HTML, hexadecimal": lambda text: "".join(f"&#X{ord(one):X};" for one in text),
    "HTML in JSON": lambda text: json_escaped(html.escape(text)).replace("&", "\\u0026"),
    "JSON in HTML": lambda text: html.escape(json_escaped(text)),
}


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize(
    "secret", [SECRET, "0123456789abcdef", "12345678", "%41%42%43%44%45 \\u0046\\x47"]
)
def test_a_secret_header_is_masked_in_every_encoding(
    secret: str, encoding: Callable[[str], str]
) -> None:
    repeated = encoding(secret)
    answer = masked(header(secret), f'{{"got": "{repeated}", "ok": true}}')
    assert answer.startswith('{"got": "')
    assert answer.endswith('", "ok": true}')
    assert "***" in answer
    assert len(answer) <= len('{"got": "***", "ok": true}') + 8  # edges of base64
    assert repeated not in answer


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_user_and_password_are_masked_together_and_alone(encoding: Callable[[str], str]) -> None:
    access = Access((Basic("accounting", PASSWORD),))
    pair = f"accounting:{PASSWORD}"
    for repeated in (pair, base64_of(pair), "accounting", PASSWORD):
        answer = masked(access, f"<p>{encoding(repeated)}</p>")
        assert "***" in answer
        assert len(answer) <= len("<p>***</p>") + 8


def test_a_password_in_latin_1_is_masked() -> None:
    access = Access((Basic("shop", "pässwörter"),))
    assert masked(access, "<pässwörter>".encode("latin-1")) == "<***>"
    assert masked(access, quote("<pässwörter>", encoding="latin-1")) == "%3C***%3E"
    assert masked(access, "<pÃ¤sswÃ¶rter>") == "<***>"  # read as Latin-1
    assert masked(access, json.dumps("<pÃ¤sswÃ¶rter>")) == '"<***>"'


def test_every_credential_of_an_endpoint_is_masked() -> None:
    client = OAuth2("https://login.example/token", "the-client-id", "cl1ent/secret", scope="write")
    access = Access(
        (client, Bearer("t0ken-of-the-past"), Basic("user", "short")),
        (TlsIdentity(certificate="certificate", private_key="private key"),),
        ("Token S2S2S2S2", "Zm9vb29vb29vb29vb29vb29vb29v"),
    )
    sent = Basic("user", "short").authorization
    text = f"cl1ent/secret cl1ent%2Fsecret t0ken-of-the-past new-t0ken {sent} user:short S2S2S2S2"
    assert masked(access, text, "new-t0ken") == "*** *** *** *** Basic *** *** ***"
    assert masked(access, "whsec_Zm9vb29vb29vb29vb29vb29vb29v") == "whsec_***"
    shown = "https://login.example/token the-client-id write user"  # as the API shows them
    assert masked(access, shown) == shown


@pytest.mark.parametrize(
    ("value", "repeated", "answer"),
    [
        ("Token S2-secret", "S2-secret", "***"),
        ("token  S2-secret", "token=S2-secret", "token=***"),
        ("Bearer abcdefgh", "BEARER abcdefgh", "***"),
        ("Bearer abcdefgh", "bearer:abcdefgh", "bearer:***"),
        ("ApiKey id:S2-secret", "S2-secret", "***"),
        ("session=0123456789; theme=dark", "0123456789 dark", "*** dark"),
        ('Digest username="me", response="0123456789"', "0123456789", "***"),
        ("Basic c2hvcDpwYXNzdzByZA==", "shop:passw0rd passw0rd", "*** ***"),
        ("basic c2hvcDpwYXNzdzByZA==", "c2hvcDpwYXNzdzByZA", "***"),
        ("Basic not base64, either", "not base64, either", "***"),
        ("Token S2-secret", base64_of("S2-secret"), "***"),
        ("theme=dark; id=0123456789ab", base64_of("0123456789ab"), "***"),
        ("theme=dark; id=0123456789ab", b"0123456789ab".hex(), "***"),
    ],
)
def test_a_part_of_a_header_is_masked_alone(value: str, repeated: str, answer: str) -> None:
    assert masked(header(value), repeated) == answer


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\n    ", "\\n"])
def test_a_long_word_in_lines_is_masked_wherever_it_is_broken(line_break: str) -> None:
    token = "eyJhbGci.eyJz~dWIi:fQ_-.c2ln,bmF0=="
    for at in range(1, len(token)):
        answer = masked(header(token), f"<{token[:at]}{line_break}{token[at:]}>")
        assert answer == "<***>"


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_what_a_token_request_sent_is_masked(encoding: Callable[[str], str]) -> None:
    """Its `Authorization` has the client's id and secret in percent-encoding (RFC 6749, 2.3.1)."""
    client = OAuth2("https://login.example/token", "the client", "cl1ent/secret+ü%41")
    sent = base64_of(f"{quote('the client')}:{quote(client.client_secret, safe='')}")
    assert client.authorization == f"Basic {sent}"
    for repeated in (sent, f"the client:{client.client_secret}"):
        answer = masked(Access((client,)), f"<p>{encoding(repeated)}</p>")
        assert "***" in answer
        assert len(answer) <= len("<p>***</p>") + 8


def test_ordinary_answers_stay_as_they_are() -> None:
    access = Access((Basic("shop", "s3cret"),), sealed=("staging", "Bearer abcdefgh", "x"))
    for text in (
        '{"ok": true, "environment": "staging", "shop": "open", "path": "C:\\\\x", "x": "100%"}',
        "<p>Fish &amp; chips: 100 % &euro; \\u00e9 %e2%82%ac abcdefg &; %zz \\ud800 \\u{110000}",
        "\\ud83d\\ude00 \\ud83d \\x4 &nothing; &#xd800; &#99999999;",
        "",
    ):
        assert masked(access, text) == text


def test_overlapping_secrets_leave_nothing_between() -> None:
    access = Access(sealed=("abcdefghij", "efghijklmnop", "ijklmnop", "abcdefghijklmnop-long"))
    assert masked(access, "(abcdefghijklmnop)") == "(***)"
    assert masked(access, "(abcdefghijklmnop-long)") == "(***)"
    assert masked(access, "(abcdefghijklmnop%2dlo%6eg)") == "(***)"
    assert masked(access, "(abcdefghijabcdefghij)") == "(******)"


def test_an_escape_before_a_secret_does_not_hide_it() -> None:
    access = header("fabcdef0123")
    for before in ("\\", "%", "%e", "&", "&#", "\\u00", "\\x", "\\ud83d"):
        assert masked(access, f"{before}fabcdef0123") == f"{before}***"


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_a_secret_at_a_cut_is_masked(encoding: Callable[[str], str]) -> None:
    secret = 'S2/secret "with" ümläuts & more'
    mask = SecretMask(Access((Bearer("x"), Basic("user", secret))))
    repeated = encoding(secret).encode()
    for limit in range(2, len(repeated) + 4):
        kept, more = mask.start(b"--" + repeated + b"--", limit)
        assert kept.startswith(b"--")
        assert len(kept.replace(b"*", b"")) <= len(b"----") + 8  # edges of base64
        assert more is (limit < len(repeated) + 4)


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_of_a_secret_that_was_cut_at_most_seven_characters_are_shown(
    encoding: Callable[[str], str],
) -> None:
    secret = 'S2/secret "with" 😀ümläuts & more'
    mask = SecretMask(Access((Basic("user", secret),)))
    repeated = encoding(secret).encode()
    longest = len(encoding(secret[:9]).encode())
    for end in range(len(repeated)):
        data = b"--" + repeated[:end]
        kept, more = mask.start(data, LIMIT, cut=True)
        assert more
        if end > longest:
            assert b"***" in kept
            assert len(kept.replace(b"*", b"")) <= len(b"--") + 8  # edges of base64


def test_a_long_secret_across_the_end_of_what_is_kept_is_masked() -> None:
    secret = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=8192))
    mask = SecretMask(Access((Bearer(secret),)))
    for before in (0, LIMIT - 9, LIMIT - 1, LIMIT):
        kept, more = mask.start(b"-" * before + secret.encode() + b"!", LIMIT)
        assert kept == (b"-" * before + b"***")[:LIMIT]
        assert more


def test_without_secrets_nothing_is_looked_for() -> None:
    masks = SecretMasks()
    assert masks.of(PUBLIC, ()) is start_of
    assert masks.of(Access(tls=(TlsIdentity(authorities="x"),)), ()) is start_of


def test_a_mask_is_made_once_for_each_version_of_an_endpoint() -> None:
    masks = SecretMasks()
    first = masks.of(Access((Bearer("t0ken-1"),), sealed=("S2-secret",)), ())
    assert masks.of(Access((Bearer("t0ken-1"),), sealed=("S2-secret",)), ()) == first
    for other in (
        masks.of(Access((Bearer("t0ken-2"),), sealed=("S2-secret",)), ()),
        masks.of(Access((Bearer("t0ken-1"),)), ()),
        masks.of(Access((Bearer("t0ken-1"),), sealed=("S2-secret",)), ("t0ken-3",)),
    ):
        assert other != first


def test_the_memory_of_masks_is_bounded() -> None:
    masks = SecretMasks()
    for number in range(200):
        values = tuple(f"{number} {index} " + "x" * 980 for index in range(20))
        masks.of(Access(sealed=values), ())
    assert sum(mask.size for mask in masks._known.values()) <= 8 * 1024 * 1024
    assert len(masks._known) > 20


def test_what_an_answer_is_searched_for_is_bounded() -> None:
    """By the number of headers, not by that of their parts: the worst mask takes 4 ms for 3 KiB."""
    many_parts = tuple(" ".join(f"{row}-{part:07}" for part in range(90)) for row in range(20))
    worst = SecretMask(Access(sealed=many_parts))
    assert len(worst._needles) <= 20 * (2 * 6 + 8)
    assert worst.size < 512 * 1024
