"""How long a replaced secret stays valid beside the new one, as forms offer it."""

from __future__ import annotations

from typing import Final

from api.site.form import Form

OVERLAPS: Final = {
    "86400": "24 hours: time to change over",
    "3600": "1 hour",
    "604800": "7 days",
    "0": "none: the old one has leaked",
}
"""The choices, by their seconds."""


def overlap_seconds(form: Form) -> int:
    """Return the chosen overlap in seconds. Raises InvalidInput for any other choice."""
    return int(form.chosen("overlap", OVERLAPS))
