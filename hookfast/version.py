"""The one place the version is written; sent to receivers as `User-Agent: Hookfast/<version>`."""

VERSION = "0.1.0"
