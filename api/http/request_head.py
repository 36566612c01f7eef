"""Rejects requests whose head is malformed or ambiguous, before anything else reads it.

Where a field occurs twice, this service and a proxy in front of it may each believe another one, so
that the proxy authorises one key and the service the other. The server's parser rejects what would
desynchronise a connection; the rest of what HTTP demands is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from starlette.types import Scope

from api.answers.problems import BadRequest, Problem, problem_of

Field = tuple[bytes, bytes]

_ONCE = {
    name.lower().encode(): name
    for name in (
        *("Host", "Content-Type", "Content-Length", "Authorization", "Idempotency-Key"),
        *("Last-Event-ID", "Sec-Fetch-Site", "Sec-Fetch-Dest"),
    )
}
# uri-host and port of RFC 3986, section 3.2; without an authority the value is empty
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")


def trimmed(fields: Iterable[Field]) -> list[Field]:
    """Return header fields without the white space around their values, which is not part of them
    (RFC 9110, section 5.5). The server's parser only removes it in front."""
    return [(name, value.strip(b" \t")) for name, value in fields]


def head_problem(scope: Scope) -> Problem | None:
    """Return the problem of a request's head (400, 501 or 505), None if it has none. Close the
    connection after it: the two sides may disagree on its framing."""
    version = scope["http_version"]
    if version not in ("1.0", "1.1"):
        return Problem(
            status=505,
            code="http_version_not_supported",
            detail="This server speaks HTTP/1.1; use that in the request line.",
        )
    try:
        _check_fields(scope["headers"], version=version)
    except BadRequest as error:
        return problem_of(error)
    if _codings(scope["headers"]) not in ([], [b"chunked"]):
        return Problem(
            status=501,
            code="not_implemented",
            detail="Send the body with Content-Length or `Transfer-Encoding: chunked`; this server "
            "knows no other transfer coding.",
        )
    return None


def _check_fields(fields: Sequence[Field], *, version: str) -> None:
    """Check what RFC 9112 demands in sections 3.2 and 6.1, and that no field is ambiguous. Raises
    BadRequest."""
    names = [name for name, _ in fields]
    for name, shown in _ONCE.items() if len(set(names)) < len(names) else ():
        if (times := names.count(name)) > 1:
            raise BadRequest.at(shown, f"The header {shown} occurs {times} times; send it once.")
    host = next((value for name, value in fields if name == b"host"), None)
    if host is None and version == "1.1":
        raise BadRequest.at("Host", "HTTP/1.1 requires the header Host; send it.")
    if host is not None and not _HOST.fullmatch(host):
        raise BadRequest.at("Host", "Host must be a host, and a port if it is not the default.")
    if version == "1.0" and b"transfer-encoding" in names:
        raise BadRequest.at("Transfer-Encoding", "HTTP/1.0 has no Transfer-Encoding; use HTTP/1.1.")


def _codings(fields: Sequence[Field]) -> list[bytes]:
    """Return the transfer codings in their order."""
    return [
        coding.strip(b" \t").lower()
        for name, value in fields
        if name == b"transfer-encoding"
        for coding in value.split(b",")
    ]
