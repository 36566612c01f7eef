"""The data of an event whose body is not JSON: `{"unparsed": …}` with its text or bytes."""

from __future__ import annotations

import base64
import re
from typing import Final

from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue
from hookfast.strict_json.text import to_text
from hookfast.strict_json.tolerant import Reading, decode

UNPARSED: Final = "unparsed"
"""The only member of such data. It has `reason`, and either `text` or `base64`."""

_NOT_TEXT = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")


def unparsed(request: InboundRequest, *, reason: str) -> Reading:
    """Return a body as data that says what it is: text in the charset that the request names (else
    UTF-8), or else bytes in base64. `reason` says why it is not JSON, without a part of it."""
    value: dict[str, JsonValue] = {UNPARSED: {"reason": reason, **_content(request)}}
    return Reading(value, to_text(value))


def _content(request: InboundRequest) -> dict[str, str]:
    try:
        text = decode(request.body, request.encoding)
    except UnicodeDecodeError:
        text = None
    if text is None or _NOT_TEXT.search(text):
        return {"base64": base64.b64encode(request.body).decode()}
    return {"text": text}
