"""Create verifiers for the requests that `signing` signs."""

from __future__ import annotations

from typing import Any

from hookfast.receiver import Verifier
from tests.unit.receiver.signing import ALL, NOW, SECRET, key_set


def verifier(profiles: Any = ALL, **options: Any) -> Verifier:
    """Return a verifier with every secret and key, at the time of the requests."""
    options = {"secrets": [SECRET], "public_keys": key_set(), "clock": lambda: NOW} | options
    return Verifier(profiles=profiles, **options)
