"""Checks the URL and the key that a client is created with."""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2


def checked_url(url: str) -> str:
    """Return the URL without a final `/v1`. Raises ValueError if it is not that of a Hookfast."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        httpx2.URL(url)
        (parts.hostname or "").encode("idna")  # UnicodeError for a name that no lookup accepts
    except (ValueError, httpx2.InvalidURL):
        raise _not_a_url(url) from None
    if "@" in parts.netloc:  # it would replace the key, and error messages would show it
        raise ValueError("The URL must not have a user or a password; the API key is enough.")
    if not valid or parts.query or parts.fragment:
        raise _not_a_url(url)
    return url.rstrip("/").removesuffix("/v1")


def checked_api_key(key: str) -> str:
    """Return the key. Raises ValueError, without the key, if a header cannot carry it."""
    # the error message of the HTTP client would quote it
    if not key or not all("!" <= character <= "~" for character in key):
        raise ValueError("The API key is not one (hf_…): it is empty, or has spaces in it.")
    return key


def is_local(url: str) -> bool:
    """Whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def trusted(url: str) -> ssl.SSLContext | bool:
    """Return the certificate authorities that a client for this URL trusts: none for HTTP on this
    machine, because reading the usual ones takes 40 ms."""
    if is_local(url) and urlsplit(url).scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return True


def _not_a_url(url: str) -> ValueError:
    shown = "It" if "@" in url else repr(url)  # what cannot be parsed may have a password in it
    return ValueError(f"{shown} is not the URL of a Hookfast, like https://hooks.example.com.")
