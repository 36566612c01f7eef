"""An API that kills itself, with SIGKILL, between two steps of receiving a request.

    python -m tests.e2e.dying_inbox SOURCE

For each of STEPS, a forked child receives a request whose delivery id is the step's name, and dies
at that step. The parent prints the step and the signal that ended the child. Forks save the time of
imports, which is longer than everything else.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import httpx2

from api.app import create_app
from api.routes import inbound
from hookfast.settings.settings import Settings
from hookfast.storage.inbox import inbox_batch, inbox_entries, inbox_keys
from hookfast.storage.inbox.inbox import Inbox
from tests.e2e.breakpoints import after
from tests.integration.api.inbound import signed

STEPS = ("verified", "claimed", "stored", "emitted", "committed")
"""verified   nothing is in the database
claimed    the request's key is written, and not committed
stored     its entry is written, and not committed
emitted    its event and deliveries are written, and not committed
committed  all of this is committed, and the request is not answered"""


def arrange_death(step: str) -> None:
    """Make this process die right after the step."""
    match step:
        case "verified":
            inbound._verify = after(inbound._verify)  # type: ignore[assignment]
        case "claimed":
            inbox_keys.claim = after(inbox_keys.claim)  # type: ignore[assignment]
        case "stored":
            inbox_entries.add = after(inbox_entries.add)  # type: ignore[assignment]
        case "emitted":
            inbox_batch.insert_drafts = after(inbox_batch.insert_drafts)  # type: ignore[assignment]
        case "committed":
            Inbox._store_group = after(Inbox._store_group)  # type: ignore[method-assign]


async def receive(app: Any, source: str, step: str) -> None:
    headers, body = signed({"step": step}, delivery=step)
    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://hookfast.test") as client,
    ):
        await client.post(f"/in/{source}", headers=headers, content=body)


def main(source: str) -> None:
    app = create_app(Settings())
    for step in STEPS:
        child = os.fork()
        if child == 0:
            arrange_death(step)
            asyncio.run(receive(app, source, step))
            os._exit(0)  # unexpected: the request was answered
        _, status = os.waitpid(child, 0)
        print(step, os.WTERMSIG(status), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
