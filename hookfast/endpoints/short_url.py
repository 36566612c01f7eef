"""URLs of endpoints in short form, for places where people read them who may not see the whole URL.

Slack, Discord, Teams and many others accept a request from anyone who knows its URL: the path is
the credential. So Temporal's UI, logs, mail and operational events show the short form.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

# A first segment such as `services`, `webhookb2` or `api`, but none that looks like a token.
_WORD = re.compile(r"[A-Za-z][a-z_-]{0,11}[0-9]{0,2}")


def short_url(url: str) -> str:
    """Return scheme, host and port of a URL, and the first segment of its path if that is a plain
    word: `https://hooks.slack.com/services/…`. User, query and fragment are left out."""
    try:
        parts = urlsplit(url)
    except ValueError:  # `https://[`, which no endpoint has
        return "…"
    origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    first, _, more = parts.path.removeprefix("/").partition("/")
    if not first and not more:
        return origin + parts.path
    if not _WORD.fullmatch(first):
        return f"{origin}/…"
    return f"{origin}/{first}/…" if more else f"{origin}/{first}"
