"""Sample requests: what each provider could send, signed with a source's secret as it would; and
the data of the events they become."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Final
from urllib.parse import urlencode

from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput
from hookfast.inbox.form import FORM
from hookfast.inbox.provider import Provider, Sample, Unsigned, bind
from hookfast.inbox.providers import PROVIDERS
from hookfast.inbox.received import Received, RequestHeaders

SAMPLE_NAMES: Final = tuple(
    sorted(f"{name}.{sample}" for name, found in PROVIDERS.items() for sample in found.samples)
)
"""`<provider>.<sample>`, e.g. `github.pull_request.opened`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedSample:
    """A POST to the source's URL."""

    headers: Mapping[str, str] = field(repr=False)  # GitLab's token is one of them
    body: bytes = field(repr=False)


def sample(name: str, *, provider: Provider, secret: str, now: datetime, url: str) -> SignedSample:
    """The sample of this name, new each time: its ids are, so that it is no duplicate.

    `provider` is the source's, with its options; `url` the URL the request goes to, which Twilio
    signs. Raises InvalidInput (`unknown_sample`) for a name that is none of this provider's, and
    `invalid_secret` for a secret that cannot sign (a public key).
    """
    found = provider.samples.get(name.removeprefix(f"{provider.name}."))
    if found is None:
        names = ", ".join(f"{provider.name}.{one}" for one in provider.samples)
        raise InvalidInput.at(
            "/name", f"no sample has that name; use one of {names}", code="unknown_sample"
        )
    new = uuid.uuid4()
    filler = _Filler(id=new.hex, sha=uuid.uuid5(new, "sha").hex + new.hex[:8], now=now)
    body = _body(found, filler)
    headers = {key: filler.text(value) for key, value in found.headers.items()}
    headers["Content-Type"] = found.content_type
    unsigned = Unsigned(body=body, content_type=found.content_type, url=url, id=str(new), at=now)
    return SignedSample(headers=headers | provider.sign(unsigned, secret=secret), body=body)


def provider_of_sample(name: str) -> str:
    """The provider of the sample of this name. Raises InvalidInput (`unknown_sample`)."""
    if name not in SAMPLE_NAMES:
        raise InvalidInput.at(
            "/name",
            f"no sample has that name; use one of {', '.join(SAMPLE_NAMES)}",
            code="unknown_sample",
        )
    return name.partition(".")[0]


def type_of_sample(name: str) -> str | None:
    """The event type the sample becomes; None where that is for a source's options to say. Raises
    InvalidInput (`unknown_sample`)."""
    provider_of_sample(name)
    return _types().get(name)


def sample_data(event_type: str, *, now: datetime) -> str | None:
    """Data as an event of this type has when it came from a provider: JSON text, new each time.
    None for a type that is none of the providers' own."""
    for name, type_ in _types().items():
        kind, _, rest = name.partition(".")
        if type_ == event_type and event_type.startswith(f"{kind}."):
            payload = _filler(now).value(dict(PROVIDERS[kind].samples[rest].payload))
            return json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
    return None


@cache
def _types() -> Mapping[str, str]:
    """The event types of the samples, but for those of providers that need options."""
    found = {}
    for name in SAMPLE_NAMES:
        kind, _, rest = name.partition(".")
        try:
            bound = bind(PROVIDERS[kind], {}, pointer="")
        except InvalidInput:
            continue
        request = _unsigned(bound.samples[rest], at=datetime.fromtimestamp(0, UTC))
        found[name] = bound.event_type(request, bound.payload(request))
    return found


def _unsigned(found: Sample, *, at: datetime) -> Received:
    filler = _filler(at)
    headers = {key: filler.text(value) for key, value in found.headers.items()}
    headers["Content-Type"] = found.content_type
    return Received(
        method="POST",
        url="",
        headers=RequestHeaders(headers.items()),
        body=_body(found, filler),
        caller="",
        at=at,
    )


def _filler(now: datetime) -> _Filler:
    new = uuid.uuid4()
    return _Filler(id=new.hex, sha=uuid.uuid5(new, "sha").hex + new.hex[:8], now=now)


def _body(found: Sample, filler: _Filler) -> bytes:
    payload = filler.value(dict(found.payload))
    if found.content_type == FORM and isinstance(payload, dict):
        return urlencode(payload).encode()
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filler:
    """Puts values for the placeholders of a Sample."""

    id: str
    sha: str
    now: datetime

    def text(self, text: str) -> str:
        return (
            text.replace("{id}", self.id)
            .replace("{sha}", self.sha)
            .replace("{time}", rfc3339(self.now))
        )

    def value(self, value: object) -> object:
        match value:
            case "{unix}":
                return int(self.now.timestamp())
            case str():
                return self.text(value)
            case dict():
                return {name: self.value(member) for name, member in value.items()}
            case list():
                return [self.value(element) for element in value]
            case _:
                return value
