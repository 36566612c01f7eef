"""Hookfast as it is run in production, on one machine without containers: `make cluster`."""
