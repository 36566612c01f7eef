"""The encodings in which a request may name its text to be (RFC 9110, section 8.3.2).

They are those of the WHATWG Encoding Standard that Python has, ISO-8859-1 as itself, ASCII and
UTF-32. Python's other codecs are no character encodings (`zip`, `idna`), or run what they decode
through an escape syntax.
"""

from __future__ import annotations

from encodings import normalize_encoding
from encodings.aliases import aliases
from typing import Final

_CODECS: Final = frozenset(
    {
        *("ascii", "utf_8", "utf_16", "utf_16_be", "utf_16_le", "utf_32", "utf_32_be", "utf_32_le"),
        "latin_1",
        *(f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)),
        *(f"cp{page}" for page in (866, 874, *range(1250, 1259))),
        *("koi8_r", "koi8_u", "mac_roman", "mac_cyrillic"),
        *("gbk", "gb18030", "big5", "big5hkscs", "cp949"),
        *("cp932", "euc_jp", "iso2022_jp"),
    }
)
# The web means the larger encoding by these names, and has names that Python has not.
_AS_ON_THE_WEB: Final = {
    **dict.fromkeys(("shift_jis", "x_sjis", "windows_31j"), "cp932"),
    **dict.fromkeys(("euc_kr", "windows_949"), "cp949"),
    **dict.fromkeys(("gb2312", "x_gbk"), "gbk"),
    **dict.fromkeys(("windows_874", "tis_620", "iso8859_11"), "cp874"),
    "x_mac_cyrillic": "mac_cyrillic",
}


def codec_of(charset: str) -> str | None:
    """Return the codec for the name of an encoding, as Python calls it. None: it is not known."""
    name = normalize_encoding(charset.lower())
    codec = aliases.get(name, name)
    codec = _AS_ON_THE_WEB.get(codec, codec)
    if codec not in _CODECS:
        return None
    return "utf-8" if codec == "utf_8" else codec
