"""An API that kills itself, with SIGKILL, between two steps of taking a request in.

    python -m tests.e2e.dying_inbox SOURCE

For each of STEPS a child of this process takes a request whose delivery id is the step's name, and
dies there; what is printed is the step and the signal the child died of. One process and forks,
because importing takes longer than all the rest.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import httpx2

from api.app import create_app
from api.routes import inbound
from hookfast.settings.settings import Settings
from hookfast.storage.inbox import inbox_batch, inbox_entries, inbox_keys
from hookfast.storage.inbox.inbox import Inbox
from tests.integration.api.inbound import signed

STEPS = ("verified", "claimed", "stored", "emitted", "committed")
"""verified   nothing is in the database
claimed    its key is written, and not committed
stored     its entry is written, and not committed
emitted    its event and deliveries are written, and not committed
committed  all of it is committed, and not answered"""


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def after(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def dying(*args: Any, **kwargs: Any) -> Any:
        await call(*args, **kwargs)
        die()

    return dying


def arrange(step: str) -> None:
    match step:
        case "verified":
            inbound._read = after(inbound._read)  # type: ignore[assignment]
        case "claimed":
            inbox_keys.claim = after(inbox_keys.claim)  # type: ignore[assignment]
        case "stored":
            inbox_entries.add = after(inbox_entries.add)  # type: ignore[assignment]
        case "emitted":
            inbox_batch.commit_drafts = after(inbox_batch.commit_drafts)  # type: ignore[assignment]
        case "committed":
            Inbox._take = after(Inbox._take)  # type: ignore[method-assign]


async def take(app: Any, source: str, step: str) -> None:
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
            arrange(step)
            asyncio.run(take(app, source, step))
            os._exit(0)  # it was answered, which is not what it is for
        _, status = os.waitpid(child, 0)
        print(step, os.WTERMSIG(status), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
