"""Runs the outbox relay of the client package with Hookfast's logs and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import structlog
import typer

from hookfast.cli.console import read_settings
from hookfast.cli.outbox.options import RelayOptions
from hookfast.cli.remote.remote import find_key, local_url_of_api
from hookfast.cli.remote.times import parse_duration
from hookfast.errors import Misconfigured
from hookfast.logs import configure_logging
from hookfast.logs.kind import Kind
from hookfast.plural import pluralize
from hookfast.settings.settings import Settings
from hookfast.telemetry import exposition, instruments, providers
from hookfast_client import AsyncHookfast
from hookfast_client.outbox import create_sql
from hookfast_client.outbox.connection import DatabaseUnusable
from hookfast_client.outbox.observer import Batch, Observer, RejectedRow
from hookfast_client.outbox.queue import Figures
from hookfast_client.outbox.relay import KeyDenied
from hookfast_client.outbox.run import run_relay
from hookfast_client.outbox.table import TableName

_PROCESS = "outbox-relay"
_Created = TypeVar("_Created")

log = structlog.get_logger()


def print_sql(table: str) -> None:
    """Print the statements that create the outbox table."""
    typer.echo(_checked(lambda: create_sql(table)), nl=False)


def relay(options: RelayOptions, *, database_url: str) -> None:
    """Relay until SIGINT or SIGTERM, or with `--once` until nothing is left. Raises Misconfigured
    if the database, the table or the key cannot be used."""
    settings = read_settings()
    keep = parse_duration(options.keep)
    key, _ = find_key(options.key_file)
    hookfast = _checked(lambda: AsyncHookfast(options.url or local_url_of_api(), key))
    _checked(lambda: TableName.parse(options.table))
    configure_logging(settings, process=_PROCESS)
    observer = LoggingObserver()
    with _measured(settings, options.metrics_port):
        try:
            run_relay(
                database_url,
                hookfast,
                table=options.table,
                rows=options.batch,
                keep=keep,
                poll_seconds=options.poll,
                parallel=options.parallel,
                once=options.once,
                observer=observer,
            )
        except (DatabaseUnusable, KeyDenied) as error:
            raise Misconfigured(str(error).rstrip(".")) from None
    if options.once:
        typer.echo(
            f"{pluralize(observer.sent, 'event')} sent, "
            f"{pluralize(observer.rejected_rows, 'row')} rejected."
        )


class LoggingObserver(Observer):
    """Logs and counts what the relay does."""

    def __init__(self) -> None:
        self.sent = 0
        self.rejected_rows = 0

    def started(self, *, table: str) -> None:
        log.info("The outbox relay is connected to the database.", table=table)

    def batch(self, batch: Batch) -> None:
        self.sent += batch.sent
        self.rejected_rows += batch.rejected
        results = {
            "sent": batch.sent - batch.replayed,
            "replayed": batch.replayed,
            "rejected": batch.rejected,
            "postponed": batch.postponed,
        }
        for result, count in results.items():
            instruments.OUTBOX_ROWS.add(count, result=result)
        log.info(
            "A batch of the outbox was sent.",
            kind=Kind.OUTBOX_BATCH,
            duration_ms=round(1000 * batch.seconds, 1),
            **results,
        )

    def rejected(self, row: RejectedRow) -> None:
        # not the detail, which may quote the event's data; it is in the row
        log.info(
            "Hookfast rejected a row of the outbox.",
            kind=Kind.OUTBOX_REJECTED,
            row=row.id,
            event_type=row.type,
            code=row.code,
        )

    def api_away(self, error: str, *, seconds: float) -> None:
        log.warning(
            "Hookfast took no batch of the outbox; trying again.",
            error=error,
            retry_in_seconds=round(seconds, 1),
        )

    def postponed(self, tenant: str, code: str, *, seconds: float) -> None:
        tenant_id = {"tenant_id": tenant} if tenant else {}
        log.warning(
            "Hookfast takes no events of a tenant; trying again.",
            code=code,
            retry_in_seconds=round(seconds, 1),
            **tenant_id,
        )

    def database_away(self, error: str, *, seconds: float) -> None:
        for gauge in (instruments.OUTBOX_LAG, *_COUNTED):
            gauge.forget()
        log.warning(
            "The outbox's database does not answer; trying again.",
            error=error,
            retry_in_seconds=round(seconds, 1),
        )

    def figures(self, figures: Figures) -> None:
        instruments.OUTBOX_LAG.set(figures.lag_seconds)
        for gauge, count in zip(_COUNTED, (figures.waiting, figures.rejected), strict=True):
            gauge.set(count)


_COUNTED = (instruments.OUTBOX_WAITING, instruments.OUTBOX_REJECTED)


def _checked(create: Callable[[], _Created]) -> _Created:
    """Return what `create` returns. Raises Misconfigured for an option that is not valid."""
    try:
        return create()
    except ValueError as error:
        raise Misconfigured(str(error)) from None


@contextmanager
def _measured(settings: Settings, port: int | None) -> Iterator[None]:
    """Measure while the block runs, and serve the metrics if there is a port for them."""
    telemetry = providers.start(_PROCESS)
    try:
        if port is None:
            yield
            return
        from hookfast.telemetry.metrics_server import MetricsServer

        token = settings.metrics_token
        server = MetricsServer(
            lambda: exposition.text(telemetry.registry),
            host=settings.host,
            port=port,
            token=None if token is None else token.get_secret_value(),
        )
        log.info("The relay's metrics are at /metrics.", host=settings.host, port=server.port)
        try:
            yield
        finally:
            server.close()
    finally:
        providers.finish()
