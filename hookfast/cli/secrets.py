"""`hookfast secrets`: change the keys that seal secrets and the keys that sign deliveries. It works
on the database while everything runs, and needs the settings of the service, not an API key."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated

import structlog
import typer
from rich.progress import MofNCompleteColumn

from hookfast.cli.console import read_settings
from hookfast.cli.database import open_database
from hookfast.cli.remote.progress import progress_bar
from hookfast.cli.remote.screen import print_note
from hookfast.cli.remote.times import parse_duration
from hookfast.clock import rfc3339, utc_now
from hookfast.errors import Misconfigured
from hookfast.plural import pluralize
from hookfast.process import run_async
from hookfast.settings.settings import Settings
from hookfast.signing.keyring import Keyring
from hookfast.storage.database.engine import Database
from hookfast.storage.database.migrate import is_current
from hookfast.storage.keys import signing_keys
from hookfast.storage.keys.keyring import keyring_of
from hookfast.storage.keys.rekey import Progress, Survey, rekey, survey, unopened_error

app = typer.Typer()

_ANNOUNCED = timedelta(hours=1)
"""How long a new signing key is in the directory before it signs. Receivers that cache the
directory keep it for minutes."""


@app.command("rekey")
def rekey_secrets(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the sealed values and their keys.")
    ] = False,
) -> None:
    """Seal every stored secret again, with the newest of HOOKFAST_ENCRYPTION_KEYS.

    To change the key while everything runs:

    1. Append the new key to the list of every process; restart them.

    2. Move it to the front; restart them.

    3. Run this command. It can be stopped and run again.

    4. Remove the old key.
    """
    settings = _settings()
    run_async(_rekey(settings, keyring_of(settings), dry_run=dry_run))


@app.command("rotate-signing-key")
def rotate_signing_key(
    overlap: Annotated[
        str, typer.Option(metavar="TIME", help="How long the old key stays in the directory: 24h.")
    ] = "24h",
    at_once: Annotated[
        bool,
        typer.Option(
            "--at-once", help="Sign with it now, not an hour after it was added to the directory."
        ),
    ] = False,
) -> None:
    """Create a new RSA key for the signature profile `rsa`.

    It is added to the key directory at once, so that receivers know it before it signs. After a
    leak: `--at-once --overlap 0s`.
    """
    settings = _settings()
    announce = timedelta() if at_once else _ANNOUNCED
    run_async(
        _rotate(settings, keyring_of(settings), announce=announce, overlap=parse_duration(overlap))
    )


def _settings() -> Settings:
    """Read the settings, for a command that prints what it did instead of logging it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    return read_settings()


async def _rekey(settings: Settings, keyring: Keyring, *, dry_run: bool) -> None:
    async with open_database(settings) as database:
        await _check_schema(database)
        if dry_run:
            with _shown_progress("counting") as progress:
                typer.echo(_summary(await survey(database, keyring, progress=progress)))
            return
        with _shown_progress("sealing") as progress:
            done = await rekey(database, keyring, progress=progress)
        found = await survey(database, keyring)
    if found.unopened:
        raise unopened_error(found.unopened)
    print_note(f"{pluralize(done, 'value')} sealed again.")
    typer.echo(_summary(found))
    if found.older:
        raise Misconfigured(
            f"{pluralize(found.older, 'value')} still need an older key: a process seals with it. "
            "Put the new key first everywhere, restart every process, and run this again"
        )


async def _rotate(
    settings: Settings, keyring: Keyring, *, announce: timedelta, overlap: timedelta
) -> None:
    async with open_database(settings) as database:
        await _check_schema(database)
        done = await signing_keys.rotate(
            database, keyring, announce=announce, overlap=overlap, clock=utc_now
        )
    typer.echo(f"{done.kid} signs from {rfc3339(done.signs_from)}.")
    for kid in done.retired:
        print_note(f"{kid} stays in the directory until {rfc3339(done.retired_at)} at most.")


async def _check_schema(database: Database) -> None:
    if not await is_current(database):
        raise Misconfigured(
            "the database does not have this version's schema; run `hookfast migrate` first"
        )


def _summary(found: Survey) -> str:
    newest = found.values - found.older
    sentence = f"{pluralize(found.values, 'value')}: {newest:,} under the newest key"
    sentence += f", {found.older:,} under older ones"
    if found.unopened:
        sentence += f"; no key opens {len(found.unopened):,} of them"
    return sentence + "."


@contextmanager
def _shown_progress(title: str) -> Iterator[Progress]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    with progress_bar(MofNCompleteColumn()) as bar:
        task = bar.add_task(title, total=None)
        yield lambda seen, total: bar.update(task, completed=seen, total=total)
