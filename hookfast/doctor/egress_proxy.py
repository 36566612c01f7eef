"""Checks that the egress proxy takes our requests. No receiver is connected to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

from hookfast.clock import Clock
from hookfast.doctor.finding import Finding, fail, ok
from hookfast.sender.failure import TunnelRefused
from hookfast.sender.progress import begin_progress
from hookfast.sender.proxy import EgressUnavailable, Tunnels
from hookfast.sender.resolver import Resolver, system_lookup
from hookfast.settings.settings import Settings

_TARGET = ("127.0.0.1", 9)
"""The proxy's own discard port, where nothing listens. A proxy asks for credentials before it
connects."""
_ANSWER_SECONDS = 5.0


async def check_egress_proxy(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Check that the proxy can be reached and accepts our credentials."""
    proxy = settings.parsed_egress_proxy
    if proxy is None:
        return
    try:
        begin_progress()
        with closing(Resolver(system_lookup)) as resolver:
            async with asyncio.timeout(_ANSWER_SECONDS):
                (await Tunnels(proxy, resolver=resolver).open(*_TARGET)).close()
    except EgressUnavailable as error:
        yield fail(
            "egress_proxy",
            f"The egress proxy {proxy} does not work: {error.what}.",
            todo="Check host, port, user and password in HOOKFAST_EGRESS_PROXY, and the proxy's "
            "log. Nothing is delivered until then.",
        )
        return
    except (TunnelRefused, TimeoutError):
        pass  # it takes our requests; whether it connects to this address is of no interest
    yield ok("egress_proxy", f"The egress proxy {proxy} accepts our requests.")
