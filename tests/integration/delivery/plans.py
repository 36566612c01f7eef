"""Retry plans that tests give their endpoints."""

from __future__ import annotations

PATIENT = {"delays_seconds": [600, 600], "jitter": 0, "retry_on": "all"}
"""A plan whose retries come too late for any test."""
QUICK = {"delays_seconds": [0.2, 0.2, 0.2], "jitter": 0, "retry_on": "all"}
"""A plan whose retries come at once."""
SOON = {"delays_seconds": [1.5, 600], "jitter": 0, "retry_on": "all"}
"""A plan whose first retry comes after the failures have opened the circuit."""
