"""Runs the demo: the service, the receiver, the events, and the live table of deliveries."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import sys
from io import BufferedWriter
from itertools import chain, count

from rich.live import Live

import hookfast_client
from hookfast.cli.console import out, read_settings
from hookfast.cli.demo import view
from hookfast.cli.demo.board import Board
from hookfast.cli.demo.receiver import Receiver, run_receiver
from hookfast.cli.demo.scene import EVENT_TYPES, FIRST_EVENTS, LATER_EVENTS
from hookfast.cli.demo.setup import SavedState, set_up
from hookfast.cli.up import make_plan
from hookfast.clock import utc_now
from hookfast.errors import HookfastError, Misconfigured
from hookfast.logs import configure_logging
from hookfast.process import keep_files_private
from hookfast.settings.settings import Settings, load_settings
from hookfast.supervisor.interrupt import interruptible
from hookfast.supervisor.listener import listen
from hookfast.supervisor.processes import CannotStart
from hookfast.supervisor.service import service
from hookfast_client import AsyncHookfast

_DEFAULTS = {
    "HOOKFAST_HOME": "var/demo",
    # the receiver is on loopback, over plain HTTP
    "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
    "HOOKFAST_ALLOW_HTTP": "true",
    "HOOKFAST_ALLOW_UNVERIFIED": "true",
}
_REFRESH_SECONDS = 0.5
_FAST_SECONDS = 30.0
_FAST_PAUSE = 0.5
_SLOW_PAUSE = 4.0
_SUMMARY_EVERY = 20  # changes, where there is no terminal


class DemoFailed(HookfastError):
    """The API rejected a request of the demo. The message has its response."""

    code = "demo_failed"


def main(*, outage_every: float) -> None:
    """Run until Ctrl-C. Variables of the environment override the demo's own settings. One endpoint
    is down for 15 s every `outage_every` seconds."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    settings = read_settings()
    keep_files_private()
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = SavedState.load(settings.home)
    if settings.operator_key is not None:
        state.operator_key = settings.operator_key.get_secret_value()
    os.environ["HOOKFAST_OPERATOR_KEY"] = state.operator_key
    if "HOOKFAST_PORT" not in os.environ and not _can_listen(settings):
        os.environ["HOOKFAST_PORT"] = "0"
    load_settings.cache_clear()
    settings = read_settings()
    with (settings.home / "hookfast.log").open("ab") as log:
        configure_logging(settings, process="demo", output=log)  # lines would tear the table
        try:
            asyncio.run(_run(settings, state, log, outage_every=outage_every))
        except hookfast_client.HookfastError as error:
            raise DemoFailed(str(error)) from None


async def _run(
    settings: Settings, state: SavedState, log: BufferedWriter, *, outage_every: float
) -> None:
    out.print(f"Starting Temporal, the API and a worker; they log to {log.name}.", highlight=False)
    async with (
        interruptible() as hurry,
        run_receiver(
            state.receiver_port, secrets=state.secrets, outage_every=outage_every
        ) as receiver,
        service(make_plan(settings), hurry, output=log.fileno()) as running,
        _client(running.api_url, state.operator_key) as hookfast,
    ):
        if running.missing:
            missing = ", ".join(running.missing)
            raise CannotStart(f"the service is not ready, missing: {missing}; see {log.name}")
        state.receiver_port = receiver.port
        demo = await set_up(hookfast, state, receiver)
        board = Board(hookfast, demo.tenant_id, names=demo.names, since=utc_now())
        demo_view = view.View(
            api_url=running.api_url,
            temporal_ui_url=running.temporal_ui_url,
            key=state.operator_key,
            log=log.name,
        )
        show = _show_live if out.is_terminal else _show_plain
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_emit_events(hookfast, demo.tenant_id))
                group.create_task(show(demo_view, board, receiver))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            out.print("Stopping. Ctrl-C again stops at once.")


async def _show_live(shown: view.View, board: Board, receiver: Receiver) -> None:
    with Live(console=out, auto_refresh=False) as live:
        while True:
            await board.refresh()
            frame = shown.frame(out, board, receiver, now=utc_now())
            live.update(frame, refresh=True)
            await asyncio.sleep(_REFRESH_SECONDS)


async def _show_plain(shown: view.View, board: Board, receiver: Receiver) -> None:
    out.print(shown.header(), highlight=False, soft_wrap=True)
    changes = 0
    advised: set[str] = set()
    while True:
        for line in await board.refresh():
            out.print(view.plain(line), highlight=False, soft_wrap=True)
            changes += 1
            if changes % _SUMMARY_EVERY == 0:
                counts = "; ".join(view.summary(board, receiver))
                out.print(counts, highlight=False, soft_wrap=True)
        for kind, advice in shown.advice(board):
            if kind not in advised:
                advised.add(kind)
                out.print(advice, highlight=False, soft_wrap=True)
        await asyncio.sleep(_REFRESH_SECONDS)


def _client(url: str, key: str) -> AsyncHookfast:
    """Return a client that waits for the API as long as it takes: people kill it in a demo."""
    return AsyncHookfast(url, key, timeout=math.inf, max_retries=sys.maxsize)


def _can_listen(settings: Settings) -> bool:
    try:
        listen(settings).close()
    except Misconfigured:
        return False
    return True


async def _emit_events(hookfast: AsyncHookfast, tenant_id: str) -> None:
    """Emit two events a second for 30 s, then one every 4 s, until cancelled."""
    loop = asyncio.get_running_loop()
    fast_until = loop.time() + _FAST_SECONDS
    for name in chain(FIRST_EVENTS, (secrets.choice(LATER_EVENTS) for _ in count())):
        await hookfast.events.emit(name, EVENT_TYPES[name].generate(), tenant_id=tenant_id)
        await asyncio.sleep(_FAST_PAUSE if loop.time() < fast_until else _SLOW_PAUSE)
