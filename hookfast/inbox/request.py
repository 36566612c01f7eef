"""An inbound request, exactly as received. Its `repr` shows no header value and no body."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from hookfast.errors import InvalidInput
from hookfast.inbox.charset import codec_of
from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.media_type import charset_of

MAX_SIGNATURE_LENGTH = 16_384
"""Characters of a header that takes part in a signature."""


class RequestHeaders:
    """The headers of a request in their original order, looked up by case-insensitive name."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = tuple(pairs)

    @classmethod
    def from_raw(cls, pairs: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
        """Return the headers of an ASGI scope, without the optional white space around values,
        which is no part of them and which proxies may add (RFC 9110, section 5.5). Every byte is a
        character (ISO 8859-1), so decoding loses nothing and cannot fail."""
        return cls(
            (name.decode("latin-1"), value.strip(b" \t").decode("latin-1")) for name, value in pairs
        )

    def __repr__(self) -> str:  # values may be secrets (X-Gitlab-Token)
        return f"RequestHeaders({[name for name, _ in self._pairs]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestHeaders) and self._pairs == other._pairs

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __contains__(self, name: str) -> bool:
        return bool(self.all(name))

    def items(self) -> tuple[tuple[str, str], ...]:
        """Return every header, with its name as sent."""
        return self._pairs

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of this header, in the order they were sent."""
        lowered = name.lower()
        return tuple(value for sent, value in self._pairs if sent.lower() == lowered)

    def only(self, name: str) -> str | None:
        """Return the value of a header, None when it is missing or empty. Raises InvalidInput
        (`repeated_header`) when it is repeated: choosing one of several values would be a guess."""
        values = self.all(name)
        if len(values) > 1:
            raise InvalidInput.at(
                name, f"it appears {len(values)} times; send it once", code="repeated_header"
            )
        return (values[0] or None) if values else None

    def signing(self, name: str) -> str | None:
        """Return the value of a header that takes part in a signature, None when it is missing.

        Raises RequestRejected for a repeated header, even with equal values (another reader of the
        request may use the other one), and for an empty, too long or not visible ASCII value.
        """
        values = self.all(name)
        if not values:
            return None
        if len(values) > 1:
            raise RequestRejected(
                "signature_malformed", f"{name} appears {len(values)} times; send it once"
            )
        value = values[0]
        if not value:
            raise RequestRejected("signature_malformed", f"{name} is empty")
        if len(value) > MAX_SIGNATURE_LENGTH or not (value.isascii() and value.isprintable()):
            raise RequestRejected("signature_malformed", f"{name} is too long or not visible ASCII")
        return value

    def required(self, name: str) -> str:
        """Return the value, as `signing` does. Raises `signature_missing` when it is missing."""
        value = self.signing(name)
        if value is None:
            raise RequestRejected(
                "signature_missing",
                f"{name} is missing: set the secret at the provider, and check that no proxy in "
                "front of Hookfast strips the header",
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundRequest:
    """One inbound request. Nothing in it can be trusted until its provider has verified it."""

    method: str
    url: str
    """The absolute URL that the provider called, with its query: Twilio signs it. Behind a proxy,
    the public URL and not the one that the process saw."""
    headers: RequestHeaders
    body: bytes = field(repr=False)
    caller: str
    """The IP address of the caller, as determined by the HTTP layer."""
    at: datetime
    """When the body had been read completely; timezone-aware."""

    @property
    def content_type(self) -> str:
        """The media type in lower case, without its parameters (RFC 9110, section 8.3.1). Empty
        when the header is missing or repeated."""
        return self._content_type.partition(";")[0].rstrip(" \t").lower()

    @property
    def encoding(self) -> str | None:
        """The codec of the charset that the Content-Type names. None: it names none, or an unknown
        charset."""
        charset = charset_of(self._content_type)
        return None if charset is None else codec_of(charset)

    @property
    def _content_type(self) -> str:
        values = self.headers.all("Content-Type")
        return values[0] if len(values) == 1 else ""

    @property
    def sha256(self) -> str:
        """The hash of the body, in hexadecimal."""
        return hashlib.sha256(self.body).hexdigest()

    @property
    def content_key(self) -> str:
        """`sha256:<hex>` of the body: the idempotency key of a request without any other."""
        return f"sha256:{self.sha256}"
