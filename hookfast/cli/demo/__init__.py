"""`hookfast demo`: the whole service, a receiver with several behaviours, and steady events."""

from hookfast.cli.demo.run import main

__all__ = ["main"]
