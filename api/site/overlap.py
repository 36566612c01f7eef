"""How long an old secret stays valid after a rotation, as a choice in forms."""

from __future__ import annotations

from typing import Final

from api.site.form import Form
from hookfast.errors import InvalidInput

OVERLAPS: Final = {
    "86400": "24 hours: time to change over",
    "3600": "1 hour",
    "604800": "7 days",
    "0": "none: it has leaked",
}


def chosen_overlap(form: Form) -> int:
    """Return the chosen time in seconds. Raises InvalidInput if it is none of the choices."""
    overlap = form.get("overlap", "")
    if overlap not in OVERLAPS:
        raise InvalidInput.at("/overlap", "choose one of those in the list")
    return int(overlap)
