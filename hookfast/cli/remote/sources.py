"""`hookfast sources`: providers whose webhooks come in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hookfast.cli.remote.bulk import confirm
from hookfast.cli.remote.client import Answer, Refused, path_of
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import Limit
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import say, show_facts, show_table
from hookfast.cli.remote.times import distance, duration, shown

app = typer.Typer()

SourceId = Annotated[str, typer.Argument(metavar="ID")]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        allow_dash=True,
        help="File with the secret the provider signs with; - reads it. There is no option for "
        "the secret itself, which everyone on the machine could see. Left out where the provider "
        "lets you choose: one is made.",
    ),
]


@command(app, "list")
def list_sources(
    remote: Remote,
    tenant: Annotated[str | None, typer.Option(metavar="ID", help="Of this tenant.")] = None,
    provider: Annotated[str | None, typer.Option(help="github, gitlab, stripe, …")] = None,
    limit: Limit = 50,
) -> None:
    """List sources, newest first."""
    rows = remote.rows("/sources", {"tenant_id": tenant, "provider": provider}, limit=limit)
    if rows is not None:
        show_table(
            ("id", "provider", "active", "tenant", "name"),
            [
                (row["id"], row["provider"], row["active"], row["tenant_id"], row["name"])
                for row in rows
            ],
            nothing="There is no source. Make one with `hookfast sources create NAME`.",
            wide="name",
        )


@command(app, "create")
def create(
    remote: Remote,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    provider: Annotated[str, typer.Option(help="github, gitlab, stripe, …")],
    tenant: Annotated[
        str | None, typer.Option(metavar="ID", help="Its owner; a tenant's key implies its own.")
    ] = None,
    secret_file: SecretFile = None,
    members: Annotated[
        str | None, typer.Option(metavar="JSON", help="Any other members as an object.")
    ] = None,
) -> None:
    """Create a source and print the URL to set at the provider, and the secret where one was made,
    the only time anyone sees it."""
    form: dict[str, Any] = {} if members is None else _object(members)
    form |= {"name": name, "provider": provider}
    if tenant is not None:
        form["tenant_id"] = tenant
    if secret_file is not None:
        form["secrets"] = [_secret(secret_file)]
    answer = _told_of_the_option(lambda: remote.api.post("/sources", form), form)
    if remote.as_json:
        remote.print_json(answer)
        return
    show_facts(_facts(answer.value))
    _tell_secret(answer.value)


@command(app, "show")
def show(remote: Remote, source_id: SourceId) -> None:
    """Show a source."""
    answer = remote.api.get(path_of("sources", source_id))
    if remote.as_json:
        remote.print_json(answer)
    else:
        show_facts(_facts(answer.value))


@command(app, "rotate-secret")
def rotate_secret(
    remote: Remote,
    source_id: SourceId,
    secret_file: SecretFile = None,
    overlap: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="For how long the old one verifies too, up to 7d; 0s: not."
        ),
    ] = "24h",
) -> None:
    """Give a source a new secret, and print it where it was made here."""
    form: dict[str, Any] = {"overlap_seconds": int(duration(overlap).total_seconds())}
    if secret_file is not None:
        form["secret"] = _secret(secret_file)
    path = path_of("sources", source_id, "rotate-secret")
    answer = _told_of_the_option(lambda: remote.api.post(path, form), form)
    if remote.as_json:
        remote.print_json(answer)
        return
    for secret in answer.value["secrets"]:
        if secret["expires_at"] is not None:
            say(
                f"The secret of {shown(secret['created_at'])} verifies too until "
                f"{shown(secret['expires_at'])}."
            )
    _tell_secret(answer.value)


@command(app, "delete")
def delete(
    remote: Remote,
    source_id: SourceId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a source and its secrets. What came in stays in the inbox."""
    if not yes:
        source = remote.api.get(path_of("sources", source_id)).value
        say(f"{source['id']} takes in {source['provider']} as {source['name']!r}.")
        confirm("Delete it?")
    remote.api.delete(path_of("sources", source_id))
    say(f"{source_id} is deleted.")


@command(app, "stats")
def stats(remote: Remote, source_id: SourceId) -> None:
    """Count what became of a source's requests."""
    answer = remote.api.get(path_of("sources", source_id, "stats"))
    if remote.as_json:
        remote.print_json(answer)
        return
    found: Mapping[str, Any] = answer.value
    counts = ("accepted", "duplicates", "conflicts", "suppressed", "failed", "rejected")
    show_facts(
        {
            **{name: found[name] for name in counts},
            "last accepted": distance(found["last_accepted_at"]),
            "last rejected": distance(found["last_rejected_at"]),
            "because": found["last_error"],
        }
    )


def _facts(source: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "source": source["id"],
        "name": source["name"],
        "provider": source["provider"],
        "url": source["url"],
        "tenant": source["tenant_id"],
        "active": source["active"],
    }
    for name in ("options", "allowed_networks", "event_types", "id_expression", "idempotency"):
        if source[name]:
            value = source[name]
            text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
            facts[name.replace("_", " ")] = text
    facts["created"] = shown(source["created_at"])
    return facts


def _told_of_the_option(ask: Callable[[], Answer], form: Mapping[str, Any]) -> Answer:
    """The answer. Where it refuses the want of a secret, the error says how one is given here."""
    try:
        return ask()
    except Refused as error:
        if error.code != "invalid_secret" or "secret" in form or "secrets" in form:
            raise
        raise Refused(
            f"{error.message}\nName a file that holds it with --secret-file; - reads it.",
            status=error.status,
            code=error.code,
            errors=error.errors,
        ) from None


def _tell_secret(source: Mapping[str, Any]) -> None:
    if source["secret"] is not None:
        say("Its secret is shown this once; set it at the provider:")
        typer.echo(source["secret"])


def _secret(path: Path) -> str:
    """What is in the file. Raises typer.BadParameter."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"the secret cannot be read: {type(error).__name__}") from None
    return text.strip()


def _object(text: str) -> dict[str, Any]:
    """A JSON object. Raises typer.BadParameter."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"--members is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter("--members is not a JSON object")
    return value
