"""The look of the portal: colours with enough contrast, and values that cannot break a header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.brand import (
    Brand,
    accent_of,
    contrast,
    parse_accent,
    parse_logo_url,
    parse_origin,
)

COLORS = st.integers(0, 0xFFFFFF).map(lambda number: f"#{number:06x}")


@given(COLORS)
def test_text_has_enough_contrast_with_every_accent(color: str) -> None:
    accent = accent_of(color)
    assert accent.ground == color
    assert contrast(accent.on_ground, accent.ground) >= 4.5
    for ground in ("#ffffff", "#f0f2f5"):
        assert contrast(accent.light, ground) >= 4.5
    for ground in ("#0f1217", "#1f252e"):
        assert contrast(accent.dark, ground) >= 7


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # a well-known pair


def test_a_readable_accent_stays_as_it_is() -> None:
    assert accent_of("#4338ca").light == "#4338ca"
    assert accent_of("#ffdd00").dark == "#ffdd00"


@pytest.mark.parametrize("text", ["#4338CA", "4338ca"])
def test_accent_is_read_with_and_without_its_sign(text: str) -> None:
    assert parse_accent(text) == "#4338ca"


@pytest.mark.parametrize(
    "text", ["", "#43c", "red", "#4338ca;}", "#4338cg", "#４３38ca", "#4338ca\n"]
)
def test_anything_else_is_no_accent(text: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        parse_accent(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://example.com/logo.svg",
        "https:///logo.svg",
        "https://user:secret@example.com/logo.svg",
        "https://example.com;script-src/logo.svg",
        "https://example.com /logo.svg",
        "https://exämple.com/logo.svg",
        "https://example.com:port/logo.svg",
        "https://[::1/logo.svg",
        "javascript:alert(1)",
        "data:image/svg+xml,<svg/>",
        "https://example.com/" + "x" * 500,
    ],
)
def test_a_logo_is_a_plain_https_url(text: str) -> None:
    with pytest.raises(ValueError, match="https URL"):
        parse_logo_url(text)


def test_a_logo_may_have_a_port_and_a_query() -> None:
    url = "https://cdn.example.com:8443/logo.svg?v=2"
    assert parse_logo_url(url) == url


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://app.example.com", "https://app.example.com"),
        ("https://App.Example.com/", "https://app.example.com"),
        ("https://app.example.com:8443", "https://app.example.com:8443"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]"),
    ],
)
def test_origin_is_read(text: str, origin: str) -> None:
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        *("*", "https://*.example.com", "'self'", "https://a.example b.example", "example.com"),
        *("http://app.example.com", "https://app.example.com/path", "https://a.example;x"),
        *("https://user@app.example.com", "https://app.example.com?x", "null", "https://"),
    ],
)
def test_anything_else_is_no_origin(text: str) -> None:
    with pytest.raises(ValueError, match="is not an origin"):
        parse_origin(text)


def test_a_tenants_look_replaces_only_what_it_has() -> None:
    shared = Brand(name="Acme", logo_url=None, accent="#4338ca")
    assert shared.of_tenant(None) == shared
    own = shared.of_tenant({"accent": "#00aa77"})
    assert (own.name, own.accent) == ("Acme", "#00aa77")
