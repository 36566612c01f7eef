"""`hookfast sources`: the providers whose webhooks Hookfast receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import ApiProblem, ApiResponse, path_of
from hookfast.cli.remote.bulk import confirm
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import (
    DeletedSource,
    Limit,
    OwnTenant,
    SourceArgument,
    Tenant,
    Yes,
    filter_option,
    parse_object,
    read_secret,
)
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import Column, print_facts, print_note
from hookfast.cli.remote.setting_options import SettingsOf, set_facts
from hookfast.cli.remote.times import format_distance, format_time, parse_duration

app = typer.Typer()

SecretFile = Annotated[
    Path | None,
    typer.Option(
        allow_dash=True,
        help="File with the secret the provider signs with; - reads standard input. There is no "
        "option for the secret itself, which everyone on the machine could see. Without it, a "
        "secret is generated if the provider lets you choose one.",
    ),
]


@command(app, "list")
def list_sources(
    remote: Remote,
    tenant: Tenant = None,
    provider: Annotated[str | None, filter_option("github, gitlab, stripe, …")] = None,
    limit: Limit = 50,
) -> None:
    """List sources, newest first."""
    remote.print_list(
        "/sources",
        {"tenant_id": tenant, "provider": provider},
        {
            "id": Column(value="id", priority=0),
            "provider": "provider",
            "active": "active",
            "tenant": Column(value="tenant_id", priority=3, least=10, noun="tenant"),
            "name": Column(value="name", least=12),
        },
        limit=limit,
        if_empty="There are no sources. Create one with `hookfast sources create NAME`.",
    )


@command(app, "create")
def create(
    remote: Remote,
    settings: Annotated[
        dict[str, Any],
        SettingsOf(
            form="hookfast.resources.source:SourceSettings",
            names={"active": "--active/--inactive"},
            without=("name",),
        ),
    ],
    name: Annotated[str, typer.Argument(help="What it is for.")],
    provider: Annotated[str, typer.Option(help="github, gitlab, stripe, …")],
    tenant: OwnTenant = None,
    secret_file: SecretFile = None,
    members: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Any other members as an object; - reads it."),
    ] = None,
) -> None:
    """Create a source and print the URL to set at the provider, and the secret if it was generated,
    the only time it is shown."""
    form = {} if members is None else parse_object(members, option="--members")
    form |= settings | {"name": name, "provider": provider}
    if tenant is not None:
        form["tenant_id"] = tenant
    if secret_file is not None:
        form["secrets"] = [read_secret(secret_file)]
    response = _naming_the_option(lambda: remote.api.post("/sources", form), form)
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))
        _print_secret(response.value)


@command(app, "show")
def show(remote: Remote, source_id: SourceArgument) -> None:
    """Show a source."""
    response = remote.api.get(path_of("sources", source_id))
    if not remote.printed_json(response):
        print_facts(_facts(remote, response.value))


@command(app, "rotate-secret")
def rotate_secret(
    remote: Remote,
    source_id: SourceArgument,
    secret_file: SecretFile = None,
    overlap: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long the old secret still verifies, up to 7d; 0s ends it at once.",
        ),
    ] = "24h",
) -> None:
    """Give a source a new secret, and print it if it was generated."""
    form: dict[str, Any] = {"overlap_seconds": int(parse_duration(overlap).total_seconds())}
    if secret_file is not None:
        form["secret"] = read_secret(secret_file)
    path = path_of("sources", source_id, "rotate-secret")
    response = _naming_the_option(lambda: remote.api.post(path, form), form)
    if remote.printed_json(response):
        return
    for secret in response.value["secrets"]:
        if secret["expires_at"] is not None:
            print_note(
                f"The secret of {format_time(secret['created_at'])} also verifies until "
                f"{format_time(secret['expires_at'])}."
            )
    _print_secret(response.value)


@command(app, "delete")
def delete(remote: Remote, source_id: DeletedSource, yes: Yes = False) -> None:
    """Delete a source and its secrets. The requests it received stay in the inbox."""
    if not yes:
        source = remote.api.get(path_of("sources", source_id)).value
        print_note(f"{source['id']} receives from {source['provider']} as {source['name']!r}.")
        confirm("Delete it?")
    remote.api.delete(path_of("sources", source_id))
    print_note(f"{source_id} is deleted.")


@command(app, "stats")
def stats(remote: Remote, source_id: SourceArgument) -> None:
    """Count a source's requests by result."""
    response = remote.api.get(path_of("sources", source_id, "stats"))
    if remote.printed_json(response):
        return
    found: Mapping[str, Any] = response.value
    counts = ("accepted", "duplicates", "conflicts", "suppressed", "failed", "rejected")
    print_facts(
        {
            **{name: found[name] for name in counts},
            "last accepted": format_distance(found["last_accepted_at"]),
            "last rejected": format_distance(found["last_rejected_at"]),
            "last error": found["last_error"],
        }
    )


_SHOWN_FIRST = frozenset(
    {
        *("id", "name", "provider", "url", "tenant_id", "active", "secrets", "secret"),
        *("created_at", "updated_at"),
    }
)
"""The members of a source that are not merely shown if they are set."""


def _facts(remote: Remote, source: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "source": source["id"],
        "name": source["name"],
        "provider": source["provider"],
        "url": source["url"],
        "tenant": remote.named("tenant", source["tenant_id"]),
        "active": source["active"],
        **set_facts(source, but=_SHOWN_FIRST),
        "created": format_time(source["created_at"]),
    }


def _naming_the_option(send: Callable[[], ApiResponse], form: Mapping[str, Any]) -> ApiResponse:
    """Return the response. When the API rejects a form because it has no secret, the error also
    names the option that gives one."""
    try:
        return send()
    except ApiProblem as problem:
        if problem.code != "invalid_secret" or "secret" in form or "secrets" in form:
            raise
        raise ApiProblem(
            f"{problem.message}\nName a file that holds it with --secret-file; - reads it.",
            problem.problem,
        ) from None


def _print_secret(source: Mapping[str, Any]) -> None:
    if source["secret"] is not None:
        print_note("The secret is shown only once; set it at the provider:")
        typer.echo(source["secret"])
