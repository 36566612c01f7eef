"""Retry plans that tests give their endpoints."""

from __future__ import annotations

PATIENT = {"delays_seconds": [600, 600], "jitter": 0, "retry_on": "all"}
"""One whose retries no test lives to see."""
QUICK = {"delays_seconds": [0.2, 0.2, 0.2], "jitter": 0, "retry_on": "all"}
"""One whose retries come at once."""
SOON = {"delays_seconds": [1.5, 600], "jitter": 0, "retry_on": "all"}
"""One whose first retries find the circuit open that they have opened."""
