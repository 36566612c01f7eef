"""Which Content-Types are those of JSON in UTF-8."""

from __future__ import annotations

import pytest

from hookfast.inbox.media_type import is_utf_8


@pytest.mark.parametrize(
    "parameters",
    [
        *("", ";", "; ", ";;", " ; charset=utf-8", ";charset=UTF-8", '; CharSet="Utf-8" ', ";v=1"),
        *('; title="a; charset=utf-16"', '; title="\\"; charset=utf-16"; charset=utf-8'),
        *("; charset=utf-8; charset=UTF-8", "; charsets=utf-16", "; x-charset=utf-16"),
    ],
)
def test_content_type_without_another_charset_is_utf_8(parameters: str) -> None:
    assert is_utf_8(f"application/json{parameters}")


@pytest.mark.parametrize(
    "parameters",
    [
        *("; charset=utf-16", ";CHARSET=UTF-16LE", '; charset="utf-16"', "; charset=iso-8859-1"),
        *("; charset=us-ascii", "; charset=", '; charset=""', "; charset", "; charset=utf8"),
        *("; charset=utf-8; charset=utf-16", "; charset=utf-16; charset=utf-8"),
        *("; charset =utf-16", "; charset= utf-8", "; charset='utf-8'", "; charset*=utf-8''x"),
        *(
            '; charset="utf-8',
            '; a="b"; charset=utf-32',
            "; charset=utf-8 utf-16",
            "; charset=utf-7",
        ),
        *('; a="b" charset=utf-8', "; charset=utf-8, text/plain", '; charset="\\utf-8"'),
    ],
)
def test_content_type_with_another_charset_or_malformed_is_not(parameters: str) -> None:
    assert not is_utf_8(f"application/json{parameters}")


def test_long_content_type_is_read_in_one_pass() -> None:
    assert not is_utf_8("application/json" + "; \t" * 100_000 + "=")
    assert not is_utf_8("application/json" + ";a=b  " * 100_000 + "=")
    assert not is_utf_8('application/json;a="' + "\\\\" * 100_000)
