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
_CHARSET = re.compile(r""";[ \t]*charset="?([^\s";,]{1,40})""", re.IGNORECASE)


def is_json(media_type: str) -> bool:
    """Whether bodies of this type are JSON: by the suffix `+json` (RFC 6839, section 3.1) too."""
    return _JSON.fullmatch(media_type) is not None


def charset_of(content_type: str) -> str | None:
    """Return the parameter `charset` of a Content-Type, as sent."""
    found = _CHARSET.search(content_type)
    return None if found is None else found[1]
