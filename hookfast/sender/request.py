"""Requests, which may be sent several times with different credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hookfast.sender.addresses import Network
from hookfast.sender.http1 import Field, request_head
from hookfast.sender.url import Url

_OWN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "accept-encoding"}
)


class Message(NamedTuple):
    """A request as it is sent: its header fields, its head with them, and its body."""

    fields: list[Field]
    head: bytes
    body: bytes


class Request(NamedTuple):
    """A request to `url`, limited to `networks` if there are any. It does not send those of
    `headers` that HTTP itself needs, and sets them."""

    method: str
    url: Url
    headers: Mapping[str, str]
    body: bytes
    networks: tuple[Network, ...] = ()

    def message(self, authorization: str | None) -> Message:
        """Return the request with this `Authorization`, if there is one. Raises InvalidRequest."""
        fields = [("Host", self.url.authority), ("Accept-Encoding", "identity")]
        fields += [one for one in self.headers.items() if one[0].lower() not in _OWN_HEADERS]
        if self.method == "POST":
            fields.append(("Content-Length", str(len(self.body))))
        if authorization is not None:
            fields = [one for one in fields if one[0].lower() != "authorization"]
            fields.append(("Authorization", authorization))
        # The target is sent as the endpoint's owner wrote it.
        return Message(fields, request_head(self.method, self.url.target, fields), self.body)
