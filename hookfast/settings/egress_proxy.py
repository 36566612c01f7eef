"""The URL of the egress proxy, as in `HOOKFAST_EGRESS_PROXY`. Pure."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressProxy:
    """A proxy for outgoing connections. `credentials` are `user:password`, not in the `repr`."""

    host: str
    port: int
    credentials: str | None = field(repr=False)

    @property
    def authorization(self) -> str | None:
        """The value of `Proxy-Authorization` (RFC 7617, in UTF-8), if the proxy wants a user."""
        if self.credentials is None:
            return None
        return f"Basic {base64.b64encode(self.credentials.encode()).decode('ascii')}"

    def __str__(self) -> str:
        """The host and port, for operators."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_egress_proxy(url: str) -> EgressProxy:
    """Parse `http://user:password@host:3128`; user and password are percent-decoded.

    Raises ValueError. Its message quotes nothing of the URL: with a stray `/` or `@`, any part may
    contain the password.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
        username, password = (
            None if text is None else unquote(text, errors="strict")
            for text in (parts.username, parts.password)
        )
    except ValueError:
        raise _invalid("its host, port or user cannot be read") from None
    if parts.scheme == "https":
        raise _invalid(
            "TLS to the proxy is not supported; what goes to https:// endpoints is encrypted anyway"
        )
    if parts.scheme != "http":
        raise _invalid("it must begin with http://")
    if not host or not port:
        raise _invalid("it must have a host and a port")
    if "%" in host or any(character <= " " for character in host):
        raise _invalid("its host is not a valid name or address")
    try:
        host = host.encode("idna").decode("ascii")
    except UnicodeError:  # a label is empty or too long: the name can never be looked up
        raise _invalid("its host is not a valid name or address") from None
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise _invalid("nothing may follow the port")
    return EgressProxy(host=host, port=port, credentials=_credentials(username, password))


def _credentials(username: str | None, password: str | None) -> str | None:
    if username is None and password is None:
        return None
    if not username or password is None:
        raise _invalid("it must have both a user and a password, or neither")
    # RFC 7617, section 2: neither may have control characters, nor the user a colon.
    if ":" in username or not (username + password).isprintable():
        raise _invalid("its user must have no colon, and neither part control characters")
    return f"{username}:{password}"


def _invalid(why: str) -> ValueError:
    return ValueError(
        f"cannot be used: {why}. It has the form http://user:password@host:3128; write other "
        "characters than letters, digits, '-', '.', '_' and '~' in user and password as %XX"
    )
