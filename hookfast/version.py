"""The version, written only here. Receivers see it as `User-Agent: Hookfast/<version>`."""

VERSION = "0.1.0"
