"""Providers that sign the body alone, with an HMAC-SHA-256 in a header, described as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, cast

from hookfast.inbox.errors import RequestRejected
from hookfast.inbox.hmac_check import (
    Encoding,
    decode_signature,
    hmac_keys,
    hmac_signature,
    require_signature,
)
from hookfast.inbox.naming import event_name, event_type_from
from hookfast.inbox.provider import Provider, Unsigned, member, usable_id
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue

_WEAK_HASHES = ("sha1=", "md5=")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyHmacScheme:
    """How one provider writes its signature, delivery id and event name."""

    name: str
    title: str
    signature_headers: tuple[str, ...]
    """Each of these headers that a request has must be valid. Samples use the first."""
    prefix: str = ""
    """The text before the signature, e.g. `sha256=`."""
    encoding: Encoding = "hex"
    delivery_headers: tuple[tuple[str, ...], ...]
    """Headers that together are the delivery id; the first complete row applies."""
    type_headers: tuple[tuple[str, ...], ...]
    """Headers that together name the event; the first complete row applies."""
    action_member: str | None = None
    """The member of the body with the event's verb. None: the header contains it."""
    lets_choose_secret: bool = True
    suggested_keys: Mapping[str, str]


class BodyHmac(Provider):
    """The base class of these providers; `body_hmac_provider` creates one for a scheme."""

    scheme: ClassVar[BodyHmacScheme]

    def verify(self, request: InboundRequest, *, secrets: Sequence[str], now: datetime) -> None:
        keys = hmac_keys(secrets)
        headers = self.scheme.signature_headers
        present = [header for header in headers if header in request.headers]
        # all of them, so that an attacker cannot choose the weaker one
        for header in present or headers[:1]:
            self._require_signed(request, header, keys)

    def _require_signed(self, request: InboundRequest, header: str, keys: Sequence[bytes]) -> None:
        prefix = self.scheme.prefix
        text = request.headers.required(header)
        if prefix and text.startswith(_WEAK_HASHES):
            raise RequestRejected(
                "signature_not_accepted", f"{header} has a weak hash; send {prefix} instead"
            )
        raw = decode_signature(text, header=header, prefix=prefix, encoding=self.scheme.encoding)
        require_signature([raw], keys, request.body)

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        return usable_id(_first_complete(request, self.scheme.delivery_headers))

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """Return the name in the header as event type, with the body's action if it has one."""
        name = _first_complete(request, self.scheme.type_headers)
        if self.scheme.action_member is None:
            return event_type_from(self.name, name)
        return event_name(self.name, name, member(payload, self.scheme.action_member))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        text = hmac_signature(secret, unsigned.body, encoding=self.scheme.encoding)
        return {self.scheme.signature_headers[0]: f"{self.scheme.prefix}{text}"}


def _first_complete(request: InboundRequest, rows: Sequence[Sequence[str]]) -> str | None:
    """Return the values of the first row of headers that are all present, joined by slashes."""
    for headers in rows:
        parts = [part for header in headers if (part := request.headers.only(header))]
        if len(parts) == len(headers):
            return "/".join(parts)
    return None


def body_hmac_provider(scheme: BodyHmacScheme) -> type[Provider]:
    """Return the provider class for a scheme."""
    members = {
        "scheme": scheme,
        "name": scheme.name,
        "title": scheme.title,
        "lets_choose_secret": scheme.lets_choose_secret,
        "suggested_keys": scheme.suggested_keys,
        "id_headers": frozenset(name for names in scheme.delivery_headers for name in names),
    }
    return cast(type[Provider], type(scheme.name.capitalize(), (BodyHmac,), members))
