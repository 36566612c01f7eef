"""Requests may name the encodings of the web, and no other codec of Python's."""

from __future__ import annotations

import pytest

from hookfast.inbox import charset
from hookfast.inbox.charset import codec_of
from tests.unit.inbox.requests import JSON, received


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        *(("utf-8", "utf-8"), ("UTF8", "utf-8"), ("us-ascii", "ascii"), ("UTF-16LE", "utf_16_le")),
        *(("ISO-8859-1", "latin_1"), ("latin1", "latin_1"), ("iso-8859-15", "iso8859_15")),
        *(("windows-1252", "cp1252"), ("cp1251", "cp1251"), ("KOI8-R", "koi8_r")),
        *(("Shift_JIS", "cp932"), ("x-sjis", "cp932"), ("windows-31j", "cp932")),
        *(("GB2312", "gbk"), ("x-gbk", "gbk"), ("windows-949", "cp949")),
        *(("windows-874", "cp874"), ("TIS-620", "cp874"), ("x-mac-cyrillic", "mac_cyrillic")),
        *(("EUC-JP", "euc_jp"), ("ISO-2022-JP", "iso2022_jp"), ("GB18030", "gb18030")),
        *(("Big5", "big5"), ("EUC-KR", "cp949"), ("macintosh", "mac_roman")),
    ],
)
def test_the_encodings_of_the_web_are_known_by_their_names(label: str, codec: str) -> None:
    assert codec_of(label) == codec


@pytest.mark.parametrize("codec", sorted(charset._CODECS))
def test_every_known_encoding_decodes_ascii(codec: str) -> None:
    assert codec_of(codec) is not None
    assert "a".encode(codec).decode(codec) == "a"


@pytest.mark.parametrize(
    "label",
    [
        *("zip", "zlib", "bz2", "base64", "hex", "quopri", "uu", "rot13", "idna", "punycode"),
        *("unicode_escape", "raw_unicode_escape", "utf-7", "undefined", "mbcs", "os", "..", ""),
        *("utf-8-sig", "x-unknown", "ü"),
    ],
)
def test_codecs_that_are_no_encoding_of_text_are_not_known(label: str) -> None:
    assert codec_of(label) is None


@pytest.mark.parametrize(
    ("parameters", "encoding"),
    [
        ("", None),
        ("; charset=iso-8859-1", "latin_1"),
        (';charset="ISO-8859-1"', "latin_1"),
        (";\tprofile=x ; CHARSET=utf-8", "utf-8"),
        ("; charset=", None),
        ("; charset=none", None),
        ("; xcharset=iso-8859-1", None),
    ],
)
def test_the_charset_of_a_request_is_that_of_its_content_type(
    parameters: str, encoding: str | None
) -> None:
    request = received({}, content_type=JSON + parameters)
    assert (request.content_type, request.encoding) == (JSON, encoding)
