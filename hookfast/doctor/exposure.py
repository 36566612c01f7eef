"""Settings that are right on a laptop and dangerous in production, and files that hold secrets."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from hookfast.clock import Clock
from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.settings import secret_files
from hookfast.settings.local_url import listens_everywhere
from hookfast.settings.settings import Network, Settings

_MOUNTED = Path("/run/secrets")
"""Where Docker mounts secrets, for one container: "everyone" is that container."""
_LONGEST_TIMEOUT = timedelta(seconds=30)
"""The longest an endpoint may give a request (`timeout_seconds`)."""


async def look(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """What the settings allow, where the API is reached, and who may read the secrets."""
    found = [*_deliveries(settings), *_front(settings), *_draining(settings)]
    found += await asyncio.to_thread(lambda: list(_files()))
    for finding in found:
        yield finding
    if not found:
        yield ok("settings", "Nothing is set that a production service should not have.")


def _deliveries(settings: Settings) -> Iterator[Finding]:
    if settings.allow_http:
        yield warn(
            "settings.allow_http",
            "Endpoints may have http:// URLs: bodies travel readable for everyone on the way.",
            todo="Unset HOOKFAST_ALLOW_HTTP.",
        )
    if settings.allow_unverified:
        yield warn(
            "settings.allow_unverified",
            "Endpoints need not prove that they want events: a tenant can aim them at a stranger.",
            todo="Unset HOOKFAST_ALLOW_UNVERIFIED.",
        )
    wide = [str(network) for network in settings.allowed_private_networks if _everything(network)]
    if wide:
        yield fail(
            "settings.allowed_private_networks",
            f"Deliveries may go anywhere ({', '.join(wide)}): metadata services, databases, this "
            "machine.",
            todo="Name the few networks that receivers are in, in HOOKFAST_ALLOWED_PRIVATE_NETWORKS"
            ".",
        )
    elif settings.allowed_private_networks:
        listed = ", ".join(str(network) for network in settings.allowed_private_networks)
        yield warn(
            "settings.allowed_private_networks",
            f"Deliveries may go to {listed}: whoever may create an endpoint reaches what is there.",
            todo="Keep HOOKFAST_ALLOWED_PRIVATE_NETWORKS to networks in which only receivers are.",
        )


def _front(settings: Settings) -> Iterator[Finding]:
    wide = [str(network) for network in settings.trusted_proxies if _everything(network)]
    if wide:
        yield fail(
            "settings.trusted_proxies",
            f"Every client is believed what it says of its address ({', '.join(wide)}): limits and "
            "the audit log mean nothing.",
            todo="Name only the proxies' addresses in HOOKFAST_TRUSTED_PROXIES.",
        )
    if _is_local(settings.host) and settings.public_url is None:
        return  # one machine, reached from itself
    url = urlsplit(settings.resolved_public_url)
    if settings.public_url is None:
        yield warn(
            "settings.public_url",
            "HOOKFAST_PUBLIC_URL is not set: links in mail and in thin payloads begin with "
            f"{settings.resolved_public_url}"
            + (", which leads to this machine only." if listens_everywhere(settings.host) else "."),
            todo="Set it to the URL at which receivers reach the API.",
        )
    elif url.scheme != "https" and not _is_local(url.hostname or ""):
        yield warn(
            "settings.public_url",
            f"HOOKFAST_PUBLIC_URL is {url.scheme}://: API keys travel readable.",
            todo="Put a proxy with TLS in front, and set HOOKFAST_PUBLIC_URL to https://…",
        )
    elif url.scheme == "https" and not settings.trusted_proxies:
        yield warn(
            "settings.trusted_proxies",
            "HOOKFAST_PUBLIC_URL is https://, so a proxy is in front, and none is trusted: all "
            "clients have its address, and share its limit of failures.",
            todo="Name the proxy's address or network in HOOKFAST_TRUSTED_PROXIES.",
        )


def _draining(settings: Settings) -> Iterator[Finding]:
    if settings.shutdown_grace <= _LONGEST_TIMEOUT:
        yield warn(
            "settings.shutdown_grace",
            f"A worker that is stopped waits {settings.shutdown_grace.total_seconds():g} s, and a "
            f"request may take {_LONGEST_TIMEOUT.total_seconds():g} s: those cut off go again.",
            todo="Set HOOKFAST_SHUTDOWN_GRACE to 40, and give the process longer than that to end.",
        )


def _files() -> Iterator[Finding]:
    found = secret_files.named(Settings, os.environ)
    for variable, file in {**found, ".env": Path(".env")}.items():
        try:
            mode = file.stat().st_mode
        except OSError:
            continue  # a setting's file was read already, and is said to be missing by that
        if mode & stat.S_IROTH and not file.is_relative_to(_MOUNTED):
            yield warn(
                "settings.files",
                f"Everyone on this machine may read {file}"
                + ("." if variable == ".env" else f" ({variable})."),
                todo=f"chmod 400 {file}; in Kubernetes `defaultMode: 0440` and an `fsGroup`.",
            )


def _everything(network: Network) -> bool:
    return network.prefixlen == 0


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
