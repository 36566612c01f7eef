"""The text of a search, read as what it may be, and the results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal, Self, cast, get_args
from urllib.parse import quote

from pydantic import BaseModel, Field

from hookfast.errors import InvalidInput
from hookfast.ids import Prefix
from hookfast.storage.search.hit import Hit, Kind

MAX_TEXT = 2_000
_MAX_IDS = 5
"""Ids in one text that are looked up, such as those of a log line."""

_AROUND: Final = " \t\r\n\u00a0\u200b\u200e\u200f\ufeff\"'`“”‘’„«»<>(),;"
"""Characters that are copied together with an id or URL, but are not part of it."""
_PREFIXES: Final = "|".join(sorted(get_args(Prefix), key=len, reverse=True))
_ID: Final = re.compile(rf"(?<![a-z0-9])({_PREFIXES})_([0-9a-f]{{32}})(?![0-9a-f])", re.I)
SHORTENED: Final = re.compile(rf"({_PREFIXES})_(?:…|\.\.\.)([0-9a-f]{{6,16}})", re.I)
"""An id as lists shorten it."""
_WITHOUT_PREFIX: Final = re.compile(r"[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}", re.I)
_TRACE: Final = re.compile(r"(00-)?[0-9a-f]{32}(-[0-9a-f]{16}-[0-9a-f]{2})?", re.I)
_SECRET: Final = re.compile(r"hf_[A-Za-z0-9_-]{32,}|whsec_[A-Za-z0-9+/=]{16,}|Bearer .+", re.I)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)

LooksLike = Literal["id", "shortened_id", "trace_id", "url", "event_type", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchText:
    """A text to search for, without the characters around it.

    `ids` are the whole ids in it, `shortened` is an id as lists shorten it (its prefix and its
    end), `keys` are the spellings that may be a key, and `names` what names may contain.
    """

    text: str
    looks_like: LooksLike
    ids: tuple[tuple[Prefix, str], ...] = ()
    shortened: tuple[Prefix, str] | None = None
    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, typed: str) -> Self:
        """Read what a person typed or pasted. Raises InvalidInput for an empty text, and for a
        secret (`secret_in_search`): addresses with secrets end up in logs and histories."""
        text = " ".join(typed.strip(_AROUND).split())
        if not text:
            raise InvalidInput.at("q", "type what to search for")
        if _SECRET.fullmatch(text):
            raise InvalidInput.at(
                "q",
                "this looks like a secret, and was not searched for; search for the id or name of "
                "an API key instead",
                code="secret_in_search",
            )
        ids = _ids_in(text)
        shortened = None if ids else SHORTENED.fullmatch(text)
        # a key or a name may have quotes or brackets of its own
        keys = tuple(dict.fromkeys((text, typed.strip())))
        names = _names_in_url(text) if _SCHEME.match(text) else keys
        return cls(
            text=text,
            looks_like=_kind_of(text, has_ids=bool(ids), is_shortened=shortened is not None),
            ids=ids,
            shortened=None
            if shortened is None
            else (cast(Prefix, shortened[1].lower()), shortened[2].lower()),
            keys=keys,
            names=() if ids or shortened is not None else names,  # an id is no part of a name
        )

    @property
    def hint(self) -> str:
        """What the text looks like, and why nothing may have been found."""
        return _HINTS[self.looks_like]


_HINTS: Final[Mapping[LooksLike, str]] = {
    "id": "This looks like an id. What has it was deleted, or you may not see it.",
    "shortened_id": "This looks like an id as lists shorten it, but none of the newest ends like "
    "that. Copy the whole id from its page or its link.",
    "trace_id": "This looks like a trace id. Hookfast does not index them: search for it in your "
    "tracing tool, whose spans have the ids of the event and the delivery.",
    "url": "This looks like a URL. No endpoint has it, or has a part of it.",
    "event_type": "This looks like an event type or a part of one. None is registered, and nothing "
    "else is called that.",
    "text": "No id, key or name is, or contains, this text.",
}


def _ids_in(text: str) -> tuple[tuple[Prefix, str], ...]:
    if _WITHOUT_PREFIX.fullmatch(text):
        return tuple((prefix, f"{prefix}_{text.lower()}") for prefix in get_args(Prefix))
    found = dict.fromkeys(
        (cast(Prefix, match[1].lower()), match[0].lower()) for match in _ID.finditer(text)
    )
    return tuple(found)[:_MAX_IDS]


def _names_in_url(text: str) -> tuple[str, ...]:
    """Return what URLs may contain: this URL without its scheme, and without its query."""
    url = _SCHEME.sub("", text, count=1).partition("#")[0].rstrip("/")
    return tuple(part for part in dict.fromkeys((url, url.partition("?")[0].rstrip("/"))) if part)


def _kind_of(text: str, *, has_ids: bool, is_shortened: bool) -> LooksLike:
    if _TRACE.fullmatch(text):
        return "trace_id"
    if has_ids:
        return "id"
    if is_shortened:
        return "shortened_id"
    if _SCHEME.match(text) or "/" in text:
        return "url"
    return "event_type" if re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z0-9_*]+)+", text) else "text"


_API_PATHS: Final[Mapping[Kind, str]] = {
    "event": "/v1/events/{id}",
    "delivery": "/v1/deliveries/{id}",
    "test": "/v1/tests/{id}",
    "endpoint": "/v1/endpoints/{id}",
    "subscription": "/v1/subscriptions/{id}",
    "event_type": "/v1/event-types/{id}",
    "tenant": "/v1/tenants/{id}",
    "source": "/v1/sources/{id}",
    "inbox_entry": "/v1/inbox/{id}",
    "job": "/v1/jobs/{id}",
    "api_key": "/v1/audit?key_id={id}",
    "audit_entry": "/v1/audit?resource_id={shown_with}",
    "retention_run": "/v1/retention",
}
_PAGES: Final[Mapping[Kind, str]] = {
    "event": "/dashboard/events/{id}",
    "delivery": "/dashboard/deliveries/{id}",
    "test": "/dashboard/endpoints/{shown_with}/tests/{id}",
    "endpoint": "/dashboard/endpoints/{id}",
    "subscription": "/dashboard/endpoints/{shown_with}",
    "event_type": "/dashboard/event-types/{id}",
    "tenant": "/dashboard/tenants/{id}",
    "source": "/dashboard/sources/{id}",
    "inbox_entry": "/dashboard/inbox/{id}",
    "job": "/dashboard/jobs/{id}",
    "api_key": "/dashboard/audit?key_id={id}",
    "audit_entry": "/dashboard/audit?resource_id={shown_with}",
    "retention_run": "/dashboard/retention",
}


class SearchHit(BaseModel):
    """One thing that was found."""

    kind: Kind = Field(description="What kind of thing was found.")
    id: str = Field(description="Its id; the name of an event type.")
    title: str = Field(description="Its name, its event type or its action.")
    detail: str = Field(description="More about it: a URL, a status, a key.")
    tenant_id: str | None = Field(
        description="The tenant that it belongs to; null: none, such as an event type."
    )
    exact: bool = Field(
        description="Whether its id, key, name or URL is the text, not only a part of it."
    )
    url: str = Field(description="Where the API shows it.")
    page: str = Field(description="Where the dashboard shows it.")

    @classmethod
    def of(cls, hit: Hit) -> Self:
        ids = {"id": quote(hit.id), "shown_with": quote(hit.shown_with or "")}
        url, page = (paths[hit.kind].format(**ids) for paths in (_API_PATHS, _PAGES))
        return cls(**asdict(hit), url=url, page=page)


class SearchResults(BaseModel):
    """What was found, grouped by kind; exact matches come first within each kind."""

    data: list[SearchHit] = Field(description="What was found; empty if nothing was.")
    looks_like: LooksLike = Field(description="What the text looks like.")
    hint: str | None = Field(description="Why nothing was found, if so.")
