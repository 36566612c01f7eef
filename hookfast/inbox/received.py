"""A request as it came in: exact, distrusted, and silent about its contents in logs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from hookfast.inbox.refused import Refused, UnsupportedContentType

MAX_SIGNATURE_LENGTH = 16_384
"""Characters of a header that takes part in a signature."""


class RequestHeaders:
    """Headers by name whatever its case, in their order, a repeated name as often as it came."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = tuple(pairs)

    @classmethod
    def from_raw(cls, pairs: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
        """Of the headers of an ASGI scope. Every byte is a character (ISO 8859-1), so nothing is
        lost and nothing fails; what is not ASCII is refused where it is read."""
        return cls((name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs)

    def __repr__(self) -> str:  # values may be secrets (X-Gitlab-Token)
        return f"RequestHeaders({[name for name, _ in self._pairs]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestHeaders) and self._pairs == other._pairs

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __contains__(self, name: str) -> bool:
        return bool(self.all(name))

    def items(self) -> tuple[tuple[str, str], ...]:
        """Every header, names as they came."""
        return self._pairs

    def all(self, name: str) -> tuple[str, ...]:
        """Every value under this name, in their order."""
        wanted = name.lower()
        return tuple(value for given, value in self._pairs if given.lower() == wanted)

    def only(self, name: str) -> str | None:
        """The value, white space around it stripped; None when it did not come, came empty, or
        came more than once: which one was meant would be a guess."""
        values = self.all(name)
        return (values[0].strip(" \t") or None) if len(values) == 1 else None

    def signing(self, name: str) -> str | None:
        """The value of a header that takes part in a signature, None when it did not come.

        Raises Refused for one that came twice, even with the same value: another reader of the
        request may take the other one. Also for one that is empty, too long, or not visible ASCII.
        The value is as it came: a blank in front is no blank the provider sent.
        """
        values = self.all(name)
        if not values:
            return None
        if len(values) > 1:
            raise Refused("signature_malformed", f"{name} came {len(values)} times; send it once")
        value = values[0]
        if not value:
            raise Refused("signature_malformed", f"{name} came empty")
        if len(value) > MAX_SIGNATURE_LENGTH or not (value.isascii() and value.isprintable()):
            raise Refused("signature_malformed", f"{name} is too long or not visible ASCII")
        return value

    def required(self, name: str) -> str:
        """Like `signing`, and Refused (`signature_missing`) when it did not come."""
        value = self.signing(name)
        if value is None:
            raise Refused(
                "signature_missing",
                f"{name} is missing: is a secret set at the provider, and does no proxy in front "
                "of Hookfast strip the header?",
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One inbound request, before anything is believed of it."""

    method: str
    url: str
    """Absolute and as the provider called it, with its query: Twilio signs it. Behind a proxy this
    is the public URL, not the one the process saw."""
    headers: RequestHeaders
    body: bytes = field(repr=False)
    caller: str
    """The IP address of the caller, as the HTTP side judged it."""
    at: datetime
    """When it was read whole, aware."""

    @property
    def content_type(self) -> str:
        """The media type in lower case, without its parameters (RFC 9110, section 8.3.1). Raises
        UnsupportedContentType when the header is missing or came twice."""
        value = self.headers.only("Content-Type")
        if value is None:
            raise UnsupportedContentType("send exactly one Content-Type header")
        return value.partition(";")[0].strip(" \t").lower()

    @property
    def content_key(self) -> str:
        """`sha256:<hex>` of the body: the idempotency key of a request that has no other."""
        return f"sha256:{hashlib.sha256(self.body).hexdigest()}"
