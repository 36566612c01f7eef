"""Checks for settings that are dangerous in production, and for readable files with secrets."""

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
from hookfast.settings.settings import Settings
from hookfast.settings.types import Network

_MOUNTED = Path("/run/secrets")
"""Where Docker mounts secrets for one container, which alone is "everyone" there."""
_LONGEST_TIMEOUT = timedelta(seconds=30)
"""The largest `timeout_seconds` of an endpoint."""


async def check_settings(settings: Settings, clock: Clock) -> AsyncIterator[Finding]:
    """Check what the settings allow, how the API is reached, and who may read the secrets."""
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
            "Endpoints may have http:// URLs: anyone on the network path can read the bodies.",
            todo="Unset HOOKFAST_ALLOW_HTTP.",
        )
    if settings.allow_unverified:
        yield warn(
            "settings.allow_unverified",
            "Receivers need not agree to get events: a tenant can send them to anyone's server.",
            todo="Unset HOOKFAST_ALLOW_UNVERIFIED.",
        )
    wide = [
        str(network) for network in settings.allowed_private_networks if _is_everything(network)
    ]
    if wide:
        yield fail(
            "settings.allowed_private_networks",
            f"Deliveries may go anywhere ({', '.join(wide)}): to metadata services, databases and "
            "this machine.",
            todo="List only the networks of receivers in HOOKFAST_ALLOWED_PRIVATE_NETWORKS.",
        )
    elif settings.allowed_private_networks:
        listed = ", ".join(str(network) for network in settings.allowed_private_networks)
        yield warn(
            "settings.allowed_private_networks",
            f"Deliveries may go to {listed}: anyone who may create an endpoint can reach the "
            "servers there.",
            todo="Limit HOOKFAST_ALLOWED_PRIVATE_NETWORKS to networks with only receivers.",
        )


def _front(settings: Settings) -> Iterator[Finding]:
    wide = [str(network) for network in settings.trusted_proxies if _is_everything(network)]
    if wide:
        yield fail(
            "settings.trusted_proxies",
            f"Every client can claim any address ({', '.join(wide)}): limits by client and the "
            "audit log cannot be relied on.",
            todo="List only the proxies' addresses in HOOKFAST_TRUSTED_PROXIES.",
        )
    if _is_local(settings.host) and settings.public_url is None:
        return  # only this machine can reach it
    url = urlsplit(settings.resolved_public_url)
    if settings.public_url is None:
        yield warn(
            "settings.public_url",
            "HOOKFAST_PUBLIC_URL is not set: links in mail and in thin payloads begin with "
            f"{settings.resolved_public_url}"
            + (", which only this machine can open." if listens_everywhere(settings.host) else "."),
            todo="Set it to the URL at which receivers reach the API.",
        )
    elif url.scheme != "https" and not _is_local(url.hostname or ""):
        yield warn(
            "settings.public_url",
            f"HOOKFAST_PUBLIC_URL is {url.scheme}://: anyone on the network path can read API "
            "keys.",
            todo="Put a proxy with TLS in front, and set HOOKFAST_PUBLIC_URL to https://…",
        )
    elif url.scheme == "https" and not settings.trusted_proxies:
        yield warn(
            "settings.trusted_proxies",
            "HOOKFAST_PUBLIC_URL is https://, so there is a proxy in front, and none is trusted: "
            "all clients seem to have its address, and share one limit of failures.",
            todo="Add the proxy's address or network to HOOKFAST_TRUSTED_PROXIES.",
        )


def _draining(settings: Settings) -> Iterator[Finding]:
    if settings.drain_time <= _LONGEST_TIMEOUT:
        yield warn(
            "settings.shutdown_grace",
            f"A stopping worker waits {settings.drain_time.total_seconds():g} s, and a request "
            f"may take {_LONGEST_TIMEOUT.total_seconds():g} s: interrupted requests are repeated.",
            todo="Set HOOKFAST_SHUTDOWN_GRACE to 40, and let the platform wait longer than that.",
        )


def _files() -> Iterator[Finding]:
    found = secret_files.named_files(Settings, os.environ)
    for variable, file in {**found, ".env": Path(".env")}.items():
        try:
            mode = file.stat().st_mode
        except OSError:
            continue  # loading the settings has read the others, and reported missing ones
        if mode & stat.S_IROTH and not file.is_relative_to(_MOUNTED):
            yield warn(
                "settings.files",
                f"Every user of this machine may read {file}"
                + ("." if variable == ".env" else f" ({variable})."),
                todo=f"chmod 400 {file}; in Kubernetes `defaultMode: 0440` and an `fsGroup`.",
            )


def _is_everything(network: Network) -> bool:
    return network.prefixlen == 0


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
