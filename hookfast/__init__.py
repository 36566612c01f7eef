"""Hookfast delivers webhooks durably: one Temporal workflow per (event, subscription) pair."""

from hookfast.version import VERSION as __version__

__all__ = ["__version__"]
