"""Sample requests of the providers, one JSON file each, signed on demand with a source's secret.

A file contains an unsigned request of the provider: `headers`, `payload` and `content_type` (JSON
by default). In headers and payload strings, `{id}` is replaced by a new id, `{sha}` by a new commit
id and `{time}` by an RFC 3339 time; the string `{unix}` becomes the Unix time as a number.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput
from hookfast.inbox.form import FORM
from hookfast.inbox.media_type import JSON
from hookfast.inbox.provider import Provider, Unsigned, bind
from hookfast.inbox.providers import PROVIDERS
from hookfast.inbox.request import InboundRequest, RequestHeaders

_FILES: Final = {
    f"{path.parent.name}.{path.stem}": path
    for path in sorted(Path(__file__).parent.glob("*/*.json"))
}
SAMPLE_NAMES: Final = tuple(_FILES)
"""The names of all samples: `<provider>.<sample>`, e.g. `github.pull_request.opened`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An unsigned request of a provider, with placeholders."""

    payload: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedSample:
    """The headers and body of a POST to the source's URL."""

    headers: Mapping[str, str] = field(repr=False)  # may contain GitLab's token
    body: bytes = field(repr=False)


def sample(name: str, *, provider: Provider, secret: str, now: datetime, url: str) -> SignedSample:
    """Return a sample, signed as `provider` with the options of its source would sign it.

    Its ids are new each time, so it is never a duplicate. `url` is the request's URL, which Twilio
    signs. Raises InvalidInput: `unknown_sample` unless the name is one of this provider's samples,
    `invalid_secret` for a secret that cannot sign (a public key).
    """
    names = sample_names(provider.name)
    whole = f"{provider.name}.{name.removeprefix(f'{provider.name}.')}"
    if whole not in names:
        raise _unknown_sample(names)
    found, values = unsigned_sample(whole), _Values(uuid.uuid4(), now)
    headers, body = values.headers(found), values.body(found)
    unsigned = Unsigned(
        body=body, content_type=found.content_type, url=url, id=str(values.id), at=now
    )
    return SignedSample(headers=headers | provider.sign(unsigned, secret=secret), body=body)


def sample_names(provider_name: str) -> list[str]:
    """Return the names of one provider's samples."""
    return [name for name in SAMPLE_NAMES if name.startswith(f"{provider_name}.")]


@cache
def unsigned_sample(name: str) -> Sample:
    """Return a sample (one of SAMPLE_NAMES) as its file contains it."""
    return Sample(**json.loads(_FILES[name].read_bytes()))


def provider_of_sample(name: str) -> str:
    """Return the name of a sample's provider. Raises InvalidInput (`unknown_sample`)."""
    if name not in _FILES:
        raise _unknown_sample(SAMPLE_NAMES)
    return name.partition(".")[0]


def type_of_sample(name: str) -> str | None:
    """Return the event type of a sample, or None when a source's options determine it. Raises
    InvalidInput (`unknown_sample`)."""
    provider_of_sample(name)
    return _types().get(name)


def sample_data(event_type: str, *, now: datetime) -> str | None:
    """Return sample data for an event type as JSON text, with new ids each time. None when no
    sample has this type."""
    for name, sample_type in _types().items():
        if sample_type == event_type and event_type.startswith(f"{provider_of_sample(name)}."):
            return _json(_Values(uuid.uuid4(), now).filled(unsigned_sample(name).payload))
    return None


@cache
def _types() -> Mapping[str, str]:
    """Return the event types of the samples, without those of providers that require options."""
    at = datetime.fromtimestamp(0, UTC)
    found = {}
    for name in SAMPLE_NAMES:
        try:
            bound = bind(PROVIDERS[provider_of_sample(name)], {}, pointer="")
        except InvalidInput:
            continue
        values, unsigned = _Values(uuid.uuid4(), at), unsigned_sample(name)
        headers = RequestHeaders(values.headers(unsigned).items())
        request = InboundRequest(
            method="POST", url="", headers=headers, body=values.body(unsigned), caller="", at=at
        )
        found[name] = bound.event_type(request, bound.payload(request))
    return found


def _unknown_sample(names: Sequence[str]) -> InvalidInput:
    return InvalidInput.at(
        "/name",
        f"unknown sample; use one of {', '.join(names)}",
        code="unknown_sample",
    )


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that replace a sample's placeholders."""

    id: uuid.UUID
    now: datetime

    def headers(self, sample: Sample) -> dict[str, str]:
        headers = {name: self.text(value) for name, value in sample.headers.items()}
        return headers | {"Content-Type": sample.content_type}

    def body(self, sample: Sample) -> bytes:
        payload = self.filled(sample.payload)
        if sample.content_type == FORM and isinstance(payload, dict):
            return urlencode(payload).encode()
        return _json(payload).encode()

    def text(self, text: str) -> str:
        return (
            text.replace("{id}", self.id.hex)
            .replace("{sha}", uuid.uuid5(self.id, "sha").hex + self.id.hex[:8])
            .replace("{time}", rfc3339(self.now))
        )

    def filled(self, value: object) -> object:
        match value:
            case "{unix}":
                return int(self.now.timestamp())
            case str():
                return self.text(value)
            case dict():
                return {name: self.filled(member) for name, member in value.items()}
            case list():
                return [self.filled(element) for element in value]
            case _:
                return value


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
