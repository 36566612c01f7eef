"""`hookfast outbox-relay`, which kills itself with SIGKILL between two steps of a batch.

    python -m tests.integration.client.outbox.dying_relay

For each name of a step on standard input, a forked child runs the command and dies right after that
step. The parent prints the child's exit status. Forks save the time of imports.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hookfast.cli import main
from hookfast.cli.outbox import relay as cli_relay
from hookfast_client.outbox import relay as client_relay
from hookfast_client.outbox import run
from hookfast_client.outbox.observer import Batch
from hookfast_client.outbox.queue import Queue
from hookfast_client.outbox.sending import Post
from tests.e2e.breakpoints import after, kill_process

STEPS = ("claimed", "sending", "answered", "recorded", "committed")
"""claimed    the rows are locked, and nothing is sent
sending    the request is on its way
answered   Hookfast has answered, and nothing is recorded
recorded   the results are written, and not committed
committed  they are committed, and not reported"""


def arrange_death(step: str) -> None:
    """Make this process die right after the step."""
    match step:
        case "claimed":
            Queue.claim = after(Queue.claim)  # type: ignore[method-assign]
        case "sending":
            run.poster = _dying_poster(run.poster)
        case "answered":
            client_relay.send = after(client_relay.send)  # type: ignore[assignment]
        case "recorded":
            Queue.mark_sent = after(Queue.mark_sent)  # type: ignore[method-assign]
        case "committed":
            cli_relay.LoggingObserver.batch = _die_at_batch  # type: ignore[method-assign]


def _dying_poster(poster: Any) -> Any:
    def dying(hookfast: Any) -> Post:
        post = poster(hookfast)

        async def begin(events: Sequence[bytes]) -> Sequence[Mapping[str, Any]]:
            request = asyncio.ensure_future(post(events))
            await asyncio.sleep(0.01)
            kill_process()
            return await request  # type: ignore[unreachable]

        return begin

    return dying


def _die_at_batch(_: Any, batch: Batch) -> None:
    kill_process()


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            arrange_death(line.strip())
            sys.argv = ["hookfast", "outbox-relay"]
            main()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
