"""`hookfast demo`: the whole service, a receiver with moods, and events that keep coming."""

from hookfast.cli.demo.run import main

__all__ = ["main"]
