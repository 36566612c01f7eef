"""`hookfast listen`: forward events to a server under development."""

from __future__ import annotations

import typer

from hookfast.cli.remote.listen.options import ListenOptions
from hookfast.cli.remote.remote import Remote


def listen_command(options: ListenOptions, remote: Remote) -> None:
    """Forward events to a server on this machine, signed, and print its responses.

    It needs no public URL. After a lost connection it continues where it was.
    """
    if options.payload not in ("full", "raw"):
        raise typer.BadParameter("use full or raw", param_hint="--payload")
    from hookfast.cli.remote.listen.session import listen

    listen(remote, options)
