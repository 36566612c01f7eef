"""Property tests run without a deadline: how long one example takes says more about what else the
machine is doing than about the code."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("hookfast", deadline=None)
settings.load_profile("hookfast")
