"""A request as it goes to an endpoint, before its credentials are added."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import h11

from hookfast.sender.address_guard import Network
from hookfast.sender.origin import Destination
from hookfast.sender.url import Url

_OWN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "accept-encoding"}
)


@dataclass(frozen=True, slots=True)
class Request:
    """A GET or POST. Those of `headers` that the sender sets itself are left out. `networks`, if
    any, must contain the addresses of the host."""

    method: str
    url: Url
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    networks: tuple[Network, ...] = ()

    def destination(self, ssl_context: ssl.SSLContext) -> Destination:
        """Return where the request goes, with this context if it goes over TLS."""
        tls = ssl_context if self.url.scheme == "https" else None
        return Destination(self.url.host, self.url.port, tls, self.networks)

    def head(self, authorization: str | None) -> h11.Request:
        """Return request line and headers, with this `Authorization` instead of the caller's, if it
        is not None."""
        replaced = _OWN_HEADERS if authorization is None else _OWN_HEADERS | {"authorization"}
        lines = [("Host", self.url.authority), ("Accept-Encoding", "identity")]
        lines += [line for line in self.headers.items() if line[0].lower() not in replaced]
        if self.method == "POST":
            lines.append(("Content-Length", str(len(self.body))))
        if authorization is not None:
            lines.append(("Authorization", authorization))
        return h11.Request(
            method=self.method,
            target=self.url.target,
            # Each character is a byte: a forwarded value may have `obs-text` (RFC 9110, 5.5).
            headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in lines],
        )
