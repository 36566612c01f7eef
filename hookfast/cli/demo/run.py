"""Runs the demo: the service, the receiver, the events, and the picture of it all."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import chain, count

from rich.console import RenderableType
from rich.live import Live

from hookfast.cli.console import out, read_settings
from hookfast.cli.demo import view
from hookfast.cli.demo.board import Board
from hookfast.cli.demo.client import Api
from hookfast.cli.demo.receiver import Receiver, receiving
from hookfast.cli.demo.scene import EVENT_TYPES, OPENING, REFRAIN
from hookfast.cli.demo.setup import Memory, set_up
from hookfast.cli.up import plan_of
from hookfast.clock import utc_now
from hookfast.errors import Misconfigured
from hookfast.logs import configure_logging
from hookfast.settings.settings import Settings, load_settings
from hookfast.supervisor.interrupt import interruptible
from hookfast.supervisor.listener import listen
from hookfast.supervisor.processes import CannotStart
from hookfast.supervisor.service import service

_DEFAULTS = {
    "HOOKFAST_HOME": "var/demo",
    # the receiver is on loopback, over plain HTTP
    "HOOKFAST_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
    "HOOKFAST_ALLOW_HTTP": "true",
    "HOOKFAST_ALLOW_UNVERIFIED": "true",
}
_REFRESH_SECONDS = 0.5
_SUMMARY_EVERY = 20  # changes, where there is no terminal


def main() -> None:
    """Run until Ctrl-C. What the environment sets wins over the demo's own settings."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    settings = read_settings()
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    memory = Memory.load(settings.home)
    if settings.operator_key is not None:
        memory.operator_key = settings.operator_key.get_secret_value()
    os.environ["HOOKFAST_OPERATOR_KEY"] = memory.operator_key
    if "HOOKFAST_PORT" not in os.environ and not _can_listen(settings):
        os.environ["HOOKFAST_PORT"] = "0"
    load_settings.cache_clear()
    settings = read_settings()
    with (settings.home / "hookfast.log").open("a") as log:
        configure_logging(settings, process="demo")
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(log)  # a log line would tear the table
        asyncio.run(_run(settings, memory, log))


async def _run(settings: Settings, memory: Memory, log: TextIOWrapper) -> None:
    out.print(f"Starting Temporal, the API and a worker; they log to {log.name}.", highlight=False)
    async with (
        interruptible() as hurry,
        receiving(memory.receiver_port, secrets=memory.secrets) as receiver,
        service(plan_of(settings), hurry, output=log.fileno()) as running,
        Api(running.api_url, key=memory.operator_key) as api,
    ):
        if running.missing:
            raise CannotStart(f"the service lacks {', '.join(running.missing)}; see {log.name}")
        memory.receiver_port = receiver.port
        stage = await set_up(api, memory, receiver)
        board = Board(api, stage.tenant_id, names=stage.names, since=utc_now())
        top = view.header(running, key=memory.operator_key, log=log.name)
        show = _show_live if out.is_terminal else _show_plain
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(emit_for_ever(api, stage.tenant_id))
                group.create_task(show(top, board, receiver))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            out.print("Stopping. Ctrl-C again hastens it.")


async def _show_live(top: RenderableType, board: Board, receiver: Receiver) -> None:
    with Live(console=out, auto_refresh=False) as live:
        while True:
            await board.refresh()
            picture = view.frame(top, board, receiver, now=utc_now(), height=out.height)
            live.update(picture, refresh=True)
            await asyncio.sleep(_REFRESH_SECONDS)


async def _show_plain(top: RenderableType, board: Board, receiver: Receiver) -> None:
    out.print(top, highlight=False)
    changes = 0
    while True:
        for line in await board.refresh():
            out.print(view.plain(line), highlight=False, soft_wrap=True)
            changes += 1
            if changes % _SUMMARY_EVERY == 0:
                out.print(view.summary(board, receiver), highlight=False, soft_wrap=True)
        await asyncio.sleep(_REFRESH_SECONDS)


def _can_listen(settings: Settings) -> bool:
    try:
        listen(settings).close()
    except Misconfigured:
        return False
    return True


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
