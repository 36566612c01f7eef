"""What a call sends: the path, the query and the body, checked before any of it is sent."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import quote

from hookfast_client.json_text import encode, parse, rfc3339

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

QueryValue: TypeAlias = "str | int | float | datetime | Sequence[str] | None"

_MAX_KEY = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, as often as it is sent. `repeatable`: to send it twice has the effect of sending
    it once, so that it is sent again when no answer came."""

    method: str
    path: str
    query: Mapping[str, QueryValue] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    media_type: str = JSON
    idempotency_key: str | None = None
    repeatable: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers that belong to this call."""
        headers = {} if self.body is None else {"Content-Type": self.media_type}
        if self.idempotency_key is not None:
            headers["Idempotency-Key"] = self.idempotency_key
        return headers

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """The query as pairs. Members that are None are left out; a list is repeated."""
        return tuple(
            (name, text)
            for name, value in self.query.items()
            if value is not None
            for text in _texts(value)
        )


def get(path: str, query: Mapping[str, Any] | None = None) -> Call:
    """Return a GET."""
    return Call(method="GET", path=path, query=query or {}, repeatable=True)


def post(path: str, body: object = None, *, repeatable: bool = False) -> Call:
    """Return a POST of a JSON value. `repeatable`: doing it twice is doing it once."""
    content = None if body is None else encode(body)
    return Call(method="POST", path=path, body=content, repeatable=repeatable)


def post_job(path: str, form: Mapping[str, Any], *, dry_run: bool) -> Call:
    """Return a POST that starts a job or, as a dry run, only counts what the job would act on."""
    return post(path, {**form, "dry_run": dry_run}, repeatable=dry_run)


def put(path: str, body: object) -> Call:
    """Return a PUT of a JSON value."""
    return Call(method="PUT", path=path, body=encode(body), repeatable=True)


def patch(path: str, body: object) -> Call:
    """Return a PATCH with a JSON merge patch (RFC 7396), which has the same result when it is
    applied twice."""
    return Call(
        method="PATCH", path=path, body=encode(body), media_type=MERGE_PATCH, repeatable=True
    )


def delete(path: str) -> Call:
    """Return a DELETE."""
    return Call(method="DELETE", path=path, repeatable=True)


def path(*parts: str) -> str:
    """Return a path of these parts, each quoted so that no part can become several. Raises
    ValueError for a part that is empty or that paths give a meaning of its own."""
    for part in parts:
        if part in ("", ".", ".."):
            raise ValueError(f"{part!r} is not an id")
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def encode_event(
    event_type: str,
    data: object,
    *,
    tenant_id: str | None = None,
    deliver_at: datetime | str | None = None,
    ordering_key: str | None = None,
    idempotency_key: str | None = None,
) -> bytes:
    """Return an event as the API expects it. Data that is bytes is JSON already, and stays as it
    is, byte for byte. Raises ValueError if the event cannot be sent."""
    members = {
        "type": event_type,
        "tenant_id": tenant_id,
        "deliver_at": deliver_at,
        "ordering_key": ordering_key,
        "idempotency_key": idempotency_key,
    }
    given = {name: value for name, value in members.items() if value is not None}
    if not isinstance(data, bytes):
        return encode({**given, "data": data})
    return encode(given)[:-1] + b',"data":' + checked_json(data) + b"}"


def checked_json(data: bytes) -> bytes:
    """Return these bytes. Raises ValueError if they are not JSON as Hookfast reads it."""
    try:
        parse(data)
    except ValueError as error:
        raise ValueError(f"these bytes are not JSON: {error}") from None
    return data


def emit(event: bytes, *, idempotency_key: str | None) -> Call:
    """Return the call that emits an encoded event. It has a key of its own unless one is given, so
    that it can be repeated. Raises ValueError for a key that a header cannot carry."""
    key = uuid.uuid4().hex if idempotency_key is None else checked_key(idempotency_key)
    return Call(method="POST", path="/events", body=event, idempotency_key=key, repeatable=True)


def emit_batch(events: Iterable[bytes]) -> Call:
    """Return the call that emits encoded events, each with an idempotency key."""
    body = b'{"events":[' + b",".join(events) + b"]}"
    return Call(method="POST", path="/events/batch", body=body, repeatable=True)


def checked_key(key: str) -> str:
    """Return an idempotency key. Raises ValueError if a header cannot carry it."""
    if not 1 <= len(key) <= _MAX_KEY or not all("!" <= character <= "~" for character in key):
        raise ValueError(
            f"an idempotency key is 1 to {_MAX_KEY} visible ASCII characters, without spaces"
        )
    return key


def _texts(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, datetime):
        return [rfc3339(value)]
    if isinstance(value, str | int | float):
        return [str(value)]
    return [text for one in value for text in _texts(one)]
