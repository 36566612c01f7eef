"""`hookfast endpoints`: set and remove the authentication and the TLS identity of an endpoint.
Secrets are read from files or standard input, because everyone on the machine can see options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hookfast.cli.remote.api import path_of
from hookfast.cli.remote.bulk import confirm
from hookfast.cli.remote.commands import command
from hookfast.cli.remote.options import EndpointArgument, Yes, read_secret
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import print_facts, print_note
from hookfast.cli.remote.times import format_time, parse_duration

app = typer.Typer()

Overlap = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="How long the replaced one is still tried, up to 7d; 0s ends it at once.",
    ),
]


def _file(help_text: str) -> Any:
    return typer.Option(allow_dash=True, metavar="FILE", help=f"{help_text}; - reads it.")


@command(app, "set-authentication")
def set_authentication(
    remote: Remote,
    endpoint_id: EndpointArgument,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="oauth2, basic or bearer.")],
    secret_file: Annotated[Path, _file("File with the client's secret, the password or the token")],
    username: Annotated[str | None, typer.Option(help="Of basic.")] = None,
    token_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Of oauth2: the token endpoint.")
    ] = None,
    client_id: Annotated[str | None, typer.Option(help="Of oauth2.")] = None,
    scope: Annotated[str | None, typer.Option(help="Of oauth2, separated by spaces.")] = None,
    audience: Annotated[str | None, typer.Option(help="Of oauth2.")] = None,
    client_authentication: Annotated[
        str | None,
        typer.Option(
            help="Of oauth2: where the client's id and secret are sent, basic (default: in the "
            "header) or body."
        ),
    ] = None,
    overlap: Overlap = "24h",
) -> None:
    """Set with what requests to an endpoint authenticate themselves, or replace it."""
    secrets = {"oauth2": "client_secret", "basic": "password", "bearer": "token"}
    if kind not in secrets:
        raise typer.BadParameter("it is oauth2, basic or bearer", param_hint="KIND")
    members = {
        "username": username,
        "token_url": token_url,
        "client_id": client_id,
        "scope": scope,
        "audience": audience,
        "client_authentication": client_authentication,
        secrets[kind]: read_secret(secret_file),
    }
    _put(remote, endpoint_id, "authentication", {"kind": kind} | members, overlap)


@command(app, "remove-authentication")
def remove_authentication(remote: Remote, endpoint_id: EndpointArgument, yes: Yes = False) -> None:
    """Send requests to an endpoint without authentication, only signed."""
    _delete(remote, endpoint_id, "authentication", yes=yes)


@command(app, "set-tls")
def set_tls(
    remote: Remote,
    endpoint_id: EndpointArgument,
    certificate: Annotated[
        Path | None, _file("File with the client certificate and its intermediates (PEM)")
    ] = None,
    private_key: Annotated[Path | None, _file("File with its private key (PEM)")] = None,
    authorities: Annotated[
        Path | None,
        _file("File with the authorities to trust instead of the system's (PEM)"),
    ] = None,
    overlap: Overlap = "24h",
) -> None:
    """Set the client certificate of an endpoint and the authorities that it trusts, or replace
    them."""
    files = {"certificate": certificate, "private_key": private_key, "authorities": authorities}
    members = {
        name: None if file is None else read_secret(file, option=f"--{name.replace('_', '-')}")
        for name, file in files.items()
    }
    _put(remote, endpoint_id, "tls", members, overlap)


@command(app, "remove-tls")
def remove_tls(remote: Remote, endpoint_id: EndpointArgument, yes: Yes = False) -> None:
    """Present no client certificate to an endpoint, and trust the system's authorities."""
    _delete(remote, endpoint_id, "tls", yes=yes)


def credential_facts(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return a text about each of an endpoint's credentials, None if it is not set."""
    authentication, tls = endpoint["authentication"], endpoint["tls"]
    return {
        "authentication": authentication and _authentication_text(authentication),
        "tls": tls and _tls_text(tls),
    }


def _authentication_text(shown: Mapping[str, Any]) -> str:
    match shown["kind"]:
        case "oauth2":
            text = f"oauth2, client {shown['client_id']} at {shown['token_url']}"
        case "basic":
            text = f"basic, user name {shown['username']}"
        case kind:
            text = str(kind)
    return text + _since(shown)


def _tls_text(shown: Mapping[str, Any]) -> str:
    certificate, authorities = shown["certificate"], shown["authorities"]
    parts = []
    if certificate is not None:
        until = format_time(certificate["not_after"])
        parts.append(f"certificate {certificate['subject']} until {until}")
    if authorities is not None:
        parts.append("trusts " + " and ".join(each["subject"] for each in authorities))
    return ", ".join(parts) + _since(shown)


def _since(shown: Mapping[str, Any]) -> str:
    return f", since {format_time(shown['created_at'])}"


def _put(
    remote: Remote, endpoint_id: str, member: str, members: Mapping[str, Any], overlap: str
) -> None:
    form = {name: value for name, value in members.items() if value is not None}
    form["overlap_seconds"] = int(parse_duration(overlap).total_seconds())
    response = remote.api.put(path_of("endpoints", endpoint_id, member), form)
    if remote.printed_json(response):
        return
    print_facts({"endpoint": endpoint_id, member: credential_facts(response.value)[member]})
    until = response.value[member]["previous_expires_at"]
    if until is not None:
        print_note(f"The replaced one is still tried until {format_time(until)}.")


def _delete(remote: Remote, endpoint_id: str, member: str, *, yes: bool) -> None:
    if not yes:
        confirm(f"Remove its {member}?")
    remote.api.delete(path_of("endpoints", endpoint_id, member))
    print_note(f"The {member} of {endpoint_id} is removed.")
