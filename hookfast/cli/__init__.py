"""The `hookfast` command. The module of a command is imported only when the command runs, so that
the command line starts fast."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer

from hookfast.cli import remote
from hookfast.cli.numbers import number_option
from hookfast.cli.outbox import outbox_relay
from hookfast.cli.remote.commands import command, lazy_group
from hookfast.errors import HookfastError
from hookfast.process import lasting_imports, run_and_end, run_async
from hookfast.supervisor.output_encoding import escape_unencodable_output

app = typer.Typer(
    name="hookfast",
    help="Durable webhooks on Temporal. Settings come from HOOKFAST_* and TEMPORAL_*.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        _version()
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


@app.command("up")
def _up(
    workers: Annotated[
        int | None,
        number_option(
            kind=int,
            least=1,
            most=64,
            help="Worker processes to run. Default: one, and more while it is busy and cores idle.",
        ),
    ] = None,
) -> None:
    """Run everything: Temporal (unless TEMPORAL_ADDRESS is set), the API and workers."""
    from hookfast.cli import up

    up.main(workers=workers)


@app.command("demo")
def _demo(
    outage_every: Annotated[
        int,
        number_option(
            kind=int, least=20, help="Seconds from one 15 s outage of a receiver to the next."
        ),
    ] = 300,
) -> None:
    """Run everything, with a local receiver and events that are sent to it."""
    from hookfast.cli import demo

    demo.main(outage_every=outage_every)


@app.command("api")
def _api(
    fd: Annotated[
        int | None, typer.Option(hidden=True, help="File descriptor of the listening socket.")
    ] = None,
) -> None:
    """Run one API process. Migrates the database first."""
    with lasting_imports():
        from hookfast.cli import api
    api.main(fd=fd)


@app.command("worker")
def _worker() -> None:
    """Run one worker; any number may run. Migrates the database first."""
    from hookfast.cli.console import read_settings

    settings = read_settings()  # reports an invalid setting in a sentence
    from hookfast.cli.database import check_database

    run_async(check_database(settings))  # and this a database that does not answer
    with lasting_imports():
        import worker
    worker.main()


@app.command("migrate")
def _migrate() -> None:
    """Migrate the database to the newest schema and create the first operator key."""
    from hookfast.cli import prepare

    prepare.main()


@app.command("config")
def _config(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print every setting with its default, as Markdown.")
    ] = False,
) -> None:
    """Show the settings in force, secrets masked."""
    from hookfast.cli import config

    config.main(as_json=as_json, as_markdown=as_markdown)


@app.command("doctor")
def _doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check this installation: database, schema, Temporal, keys, mail, clocks, dangerous settings.
    Says what to do, changes nothing, and exits with 1 if something does not work."""
    from hookfast.cli import doctor

    doctor.main(as_json=as_json)


@app.command("alerts")
def _alerts() -> None:
    """Print the alert rules for Prometheus, with links to your runbook, Grafana and Hookfast."""
    from hookfast.cli import alerts

    alerts.main()


@app.command("openapi")
def _openapi() -> None:
    """Print the OpenAPI document of the API."""
    from hookfast.cli import api

    api.print_openapi()


@app.command("version")
def _version() -> None:
    """Print the version."""
    from hookfast.version import VERSION

    typer.echo(VERSION)


command(app, "outbox-relay")(outbox_relay)
app.add_typer(
    typer.Typer(cls=lazy_group("hookfast.cli.secrets"), no_args_is_help=True),
    name="secrets",
    help="Change the keys that seal secrets at rest, and the keys that sign deliveries.",
)
remote.add_to(app)


def main() -> NoReturn:
    """Run the `hookfast` command and end the process. The exit code is 1, after a sentence, for
    Hookfast's own errors."""
    escape_unencodable_output()
    run_and_end(_run)


def _run() -> None:
    with errors_as_sentences():
        app()


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Exit with 1 and the message as a sentence if the block raises a HookfastError."""
    try:
        yield
    except HookfastError as error:
        typer.secho(f"hookfast: {error.message}", err=True, fg=typer.colors.RED)
        sys.exit(1)
