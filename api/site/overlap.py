"""How long a replaced secret or credential stays valid beside the new one: the field of forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.site.form import Form

OVERLAPS: Final[Mapping[str, str]] = {
    "86400": "24 hours: time to change over",
    "3600": "1 hour",
    "604800": "7 days",
    "0": "none: the old one has leaked",
}
"""The choices, by their seconds."""


def overlap_seconds(form: Form, *, default: str = "") -> int:
    """Return the choice in the field `overlap`, or the default if it is missing. Raises
    InvalidInput for any other."""
    return int(form.chosen("overlap", OVERLAPS, default=default))
