"""Media types of requests (RFC 9110, section 8.3.1)."""

from __future__ import annotations

import re
from typing import Final

JSON: Final = "application/json"
UNKNOWN: Final = "application/octet-stream"
"""What a body without a Content-Type may be taken for (RFC 9110, section 8.3)."""

MEDIA_TYPE: Final = r"[!#$%&'*+.^_`|~0-9a-z-]{1,100}/[!#$%&'*+.^_`|~0-9a-z-]{1,100}"
"""A lower-case type and subtype, without parameters."""
_JSON = re.compile(rf"(?:{JSON}|text/json|(?={MEDIA_TYPE}\Z).*\+json)")
_WORD = r"[!#$%&'*+.^_`|~0-9a-z-]+"
# RFC 9110, section 5.6.6: any parameters, but no other charset than this one
_OF_UTF_8 = re.compile(
    r"[^;]*(?:;[ \t]*(?:"
    r'charset=(?:utf-8|"utf-8")[ \t]*|'
    rf'(?!charset[*=]){_WORD}=(?:{_WORD}|"(?:[^"\\]|\\.)*")[ \t]*'
    r")?)*",
    re.IGNORECASE | re.ASCII,
)
_CHARSET = re.compile(r""";[ \t]*charset="?([^\s";,]{1,40})""", re.IGNORECASE)


def is_json(media_type: str) -> bool:
    """Whether bodies of this type are JSON: by the suffix `+json` (RFC 6839, section 3.1) too."""
    return _JSON.fullmatch(media_type) is not None


def is_utf_8(content_type: str) -> bool:
    """Whether JSON of this Content-Type is in UTF-8, as it must be (RFC 8259, section 8.1): no
    parameter names another charset, and none is malformed."""
    return _OF_UTF_8.fullmatch(content_type) is not None


def charset_of(content_type: str) -> str | None:
    """Return the parameter `charset` of a Content-Type, as sent."""
    found = _CHARSET.search(content_type)
    return None if found is None else found[1]
