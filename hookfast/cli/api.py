"""`hookfast api`: one API process, served by uvicorn. `hookfast openapi` prints its document."""

from __future__ import annotations

import json
import signal
import socket
from contextlib import closing
from datetime import timedelta
from functools import partial

import structlog
import typer
import uvicorn
from fastapi import FastAPI
from temporalio.runtime import Runtime

from api.access.client_address import Sites
from api.app import create_app
from hookfast.cli.console import print_operator_key, read_settings
from hookfast.cli.http_protocol import ApiHttp
from hookfast.cli.prepare import prepare
from hookfast.connections import open_files
from hookfast.connections.connections import ConnectionLimits, Connections
from hookfast.errors import Misconfigured
from hookfast.logs import configure_logging
from hookfast.process import freeze_startup, return_freed_blocks, run_async
from hookfast.settings.local_url import listens_everywhere
from hookfast.settings.settings import Settings
from hookfast.stop_timer import end_within
from hookfast.supervisor.listener import BACKLOG, listen
from hookfast.supervisor.service import API_GRACE_SECONDS
from hookfast.telemetry import providers
from hookfast.telemetry.temporal_metrics import runtime_without_metrics

# Longer than the 60 s after which load balancers drop an idle connection, so that they never reuse
# a connection that the API has just closed.
KEEP_ALIVE_SECONDS = 75

_CLOSE_SECONDS = 4  # for what is in memory and for telemetry, after the last request

log = structlog.get_logger()


def main(*, fd: int | None = None) -> None:
    """Serve until SIGINT or SIGTERM. `fd` is a listening socket that `up` keeps open: while the API
    restarts, callers wait in its backlog, and their connections are not refused."""
    settings = read_settings()
    configure_logging(
        settings,
        process="api",
        attempts=settings.log_attempts,  # deliveries end here when a person cancels them
        requests=settings.log_requests,
    )
    warn_if_links_are_local(settings)
    key = run_async(prepare(settings))
    if key is not None:
        print_operator_key(key)
    with closing(socket.socket(fileno=fd) if fd is not None else listen(settings)) as listener:
        port = listener.getsockname()[1]
        _serve(settings.model_copy(update={"port": port}), listener)


def warn_if_links_are_local(settings: Settings) -> None:
    """Log a warning if only this machine can open links, as in a container without a public URL."""
    if settings.public_url is None and listens_everywhere(settings.host):
        log.warning(
            "HOOKFAST_PUBLIC_URL is not set: only this machine can open the links in mail, portal "
            "links and thin payloads. Set it to the URL at which others reach the API.",
            public_url=settings.resolved_public_url,
        )


def server_config(app: FastAPI) -> uvicorn.Config:
    """Return the configuration with which uvicorn serves the API, for one server."""
    settings: Settings = app.state.settings
    connections = Connections(
        ConnectionLimits(
            total=settings.max_connections,
            per_client=settings.max_connections_per_client,
            idle_seconds=KEEP_ALIVE_SECONDS,
            unread_seconds=settings.max_unread_seconds.total_seconds(),
        ),
        site_of=Sites(settings.trusted_proxies).of,
    )
    return uvicorn.Config(
        app,
        loop="auto",  # uvloop if it is installed
        http=partial(ApiHttp, connections=connections),  # type: ignore[arg-type] # as good as a class
        ws="none",
        lifespan="on",
        log_config=None,  # logging is configured already
        access_log=False,
        server_header=False,
        proxy_headers=False,  # uvicorn would trust loopback; HOOKFAST_TRUSTED_PROXIES decides
        backlog=BACKLOG,
        timeout_graceful_shutdown=API_GRACE_SECONDS,
    )


def _serve(settings: Settings, listener: socket.socket) -> None:
    return_freed_blocks(128 * 1024)
    Runtime.set_default(runtime_without_metrics())
    allowed = open_files.fitting(settings.max_connections)
    settings = settings.model_copy(update={"max_connections": allowed})
    config = server_config(create_app(settings, watch=True))
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again once it has shut down; the process then exits with 0
        signal.signal(number, lambda *_: None)
    server = _Server(config)
    freeze_startup()
    server.run(sockets=[listener])
    providers.finish()
    if not server.started:
        raise Misconfigured("the API did not start; the log says why")


class _Server(uvicorn.Server):
    """Ends the process if it does not stop within its grace and the time to close everything, for
    example because the database is silent."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        end_within(timedelta(seconds=API_GRACE_SECONDS + _CLOSE_SECONDS))
        await super().shutdown(sockets)


def print_openapi() -> None:
    """Print the API's OpenAPI document, for `docs/openapi.json` and for generators."""
    document = create_app(read_settings()).openapi()
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
