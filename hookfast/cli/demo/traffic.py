"""Events of a small online school, at a gentle pace."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from itertools import chain, count

from hookfast.cli.demo.client import Api
from hookfast.cli.demo.scene import EVENT_TYPES, OPENING, REFRAIN

_LIVELY_SECONDS = 30.0
_LIVELY_PAUSE = 0.5
_CALM_PAUSE = 4.0


async def emit_for_ever(api: Api, tenant_id: str) -> None:
    """Two events a second for 30 s, then one every 4 s."""
    loop = asyncio.get_running_loop()
    lively_until = loop.time() + _LIVELY_SECONDS
    for name in _names():
        # the key makes it safe to send again when the API was killed before it could answer
        await api.send(
            "POST",
            "/events",
            {"type": name, "tenant_id": tenant_id, "data": EVENT_TYPES[name].make()},
            idempotency_key=secrets.token_hex(8),
        )
        await asyncio.sleep(_LIVELY_PAUSE if loop.time() < lively_until else _CALM_PAUSE)


def _names() -> Iterator[str]:
    return chain(OPENING, (secrets.choice(REFRAIN) for _ in count()))
