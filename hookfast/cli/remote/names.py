"""Names in place of ids: what people call endpoints, tenants and others, in both directions.

A terminal shows names where the API has ids, and every command that needs an id also accepts a
name, a URL, or a part that only one object has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import typer

from hookfast.cli.remote.api import MAX_PAGE, Api, ApiProblem, path_of
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.screen import (
    Column,
    Columns,
    Row,
    print_note,
    printable,
    shorten,
)
from hookfast.ids import Prefix, is_id
from hookfast.plural import pluralize

_FEW = 3
"""So many names are read one by one; for more, the newest page of the list is read first."""
_MOST_LOOKUPS = 20
_SEARCHED_NAMED, _SEARCHED_UNNAMED = 5_000, 1_000
_SHOWN_CANDIDATES = 10
_LONG_NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A kind of object that has ids. `name` returns what people call one, None if that is only its
    id; `texts` are the members by which it can be found, beside its id."""

    word: str
    path: str
    prefix: Prefix
    name: Callable[[Row], str | None] = lambda row: None
    texts: tuple[str, ...] = ()
    has_details: bool = True  # whether the API answers GET with one of them


def endpoint_name(endpoint: Row) -> str:
    """Return an endpoint's description, else its URL without the scheme, else its id."""
    description, url = str(endpoint["description"]).strip(), str(endpoint["url"] or "")
    return description or url.partition("://")[2] or f"polled {short_id(endpoint['id'])}"


def short_id(text: str) -> str:
    """Return an id's prefix and its random end, as the dashboard does."""
    prefix, _, rest = text.partition("_")
    return f"{prefix}_…{rest[-8:]}" if len(rest) > 12 else text


NOUNS: Mapping[str, Noun] = {
    noun.word: noun
    for noun in (
        Noun(
            word="endpoint",
            path="/endpoints",
            prefix="ep",
            name=endpoint_name,
            texts=("description", "url"),
        ),
        Noun(
            word="tenant",
            path="/tenants",
            prefix="tnt",
            name=lambda tenant: tenant["name"],
            texts=("name",),
        ),
        Noun(
            word="source",
            path="/sources",
            prefix="src",
            name=lambda source: source["name"],
            texts=("name", "url"),
        ),
        Noun(
            word="subscription",
            path="/subscriptions",
            prefix="sub",
            name=lambda subscription: ", ".join(subscription["events"]),
            texts=("events",),
        ),
        Noun(
            word="API key",
            path="/api-keys",
            prefix="key",
            name=lambda key: key["name"],
            texts=("name", "hint"),
            has_details=False,
        ),
        Noun(word="delivery", path="/deliveries", prefix="dlv"),
        Noun(word="test", path="/tests", prefix="dlv"),
        Noun(word="event", path="/events", prefix="evt"),
        Noun(word="job", path="/jobs", prefix="job"),
        Noun(word="inbox entry", path="/inbox", prefix="inb"),
    )
}


class Names:
    """Reads the names of ids from the API, each at most once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, str | None] = {}

    def of(self, noun: str, ids: Iterable[str]) -> dict[str, str]:
        """Return the names by id, without those that have none: the object was deleted, or this
        key must not see it. Of very many ids, some names may be missing."""
        wanted = list(dict.fromkeys(ids))
        kind = NOUNS[noun]
        unknown = [id_ for id_ in wanted if id_ not in self._known]
        if unknown and (len(unknown) > _FEW or not kind.has_details):
            page = self._read(kind.path, {"limit": MAX_PAGE})
            self._learn(kind, page["data"] if page else ())
            unknown = [id_ for id_ in unknown if id_ not in self._known]
        if kind.has_details:
            for id_ in unknown[:_MOST_LOOKUPS]:
                found = self._read(f"{kind.path}{path_of(id_)}")
                self._known[id_] = None  # also if it is gone: it is not asked for again
                self._learn(kind, [found] if found else ())
        return {id_: name for id_ in wanted if (name := self._known.get(id_))}

    def in_columns(self, rows: Sequence[Row], columns: Columns) -> dict[str, Any]:
        """Return the columns with names in place of the ids of those that have a noun."""
        return {heading: self._with_names(rows, column) for heading, column in columns.items()}

    def _with_names(self, rows: Sequence[Row], column: Any) -> Any:
        if not isinstance(column, Column) or column.noun is None:
            return column
        value, prefix = column.value, NOUNS[column.noun].prefix

        def shown(row: Row) -> Any:
            return row[value] if isinstance(value, str) else value(row)

        ids = [id_ for row in rows if isinstance(id_ := shown(row), str) and is_id(prefix, id_)]
        names = self.of(column.noun, ids)
        known = {id_: names.get(id_, short_id(id_)) for id_ in ids}
        return replace(column, value=lambda row: known.get(shown(row), shown(row)))

    def _learn(self, kind: Noun, rows: Iterable[Row]) -> None:
        self._known.update((row["id"], kind.name(row)) for row in rows)

    def _read(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON at `path`; None if the API has nothing there or does not show it to this
        key. The ids are shown then, so a name is not worth an error."""
        try:
            return self._api.get(path, query).value
        except ApiProblem as problem:
            if problem.problem.status in (403, 404):
                return None
            raise


def resolve(
    connect: Callable[[], Api], mark: IdOf, text: str, *, tenant_id: str | None = None
) -> str:
    """Return the id of the one object that `text` names: its id, name or URL, or a part of one of
    them. Raises typer.BadParameter if there is none or several, and lists them."""
    kind = NOUNS[mark.noun]
    text = text.strip().removeprefix(f"{kind.prefix}_…")  # as `short_id` shows it
    if is_id(kind.prefix, text):
        return text
    searched = _SEARCHED_NAMED if kind.texts else _SEARCHED_UNNAMED
    path = kind.path
    query: dict[str, str | int | None] = {}
    if tenant_id is not None and mark.noun == "API key":
        path = path_of("tenants", tenant_id, "api-keys")
    elif tenant_id is not None and mark.noun != "tenant":
        query["tenant_id"] = tenant_id
    rows: list[Row] = []
    complete = True
    for page in connect().pages(path, query, limit=searched):
        rows += page.value["data"]
        complete = page.value["next_cursor"] is None
    exact, partial = _matches(kind, rows, text.casefold())
    if mark.exact and not exact and partial:
        _print_candidates(kind, partial)
        raise typer.BadParameter(f"give the whole name of the {kind.word}, or its id")
    found = exact or partial
    # the end of an id is random: among the newest, one is enough
    if len(found) == 1 and (complete or exact or not kind.texts):
        print_note(f"{kind.word}: {_candidate(kind, found[0])}")
        return str(found[0]["id"])
    where = "" if complete else f" among the newest {searched:,}"
    if not found:
        raise typer.BadParameter(f"there is no {kind.word} {text!r}{where}")
    _print_candidates(kind, found)
    raise typer.BadParameter(
        f"{pluralize(len(found), kind.word)}{where} match {text!r}; give an id"
        if len(found) > 1
        else f"more than {searched:,} exist, and others may match {text!r} too; give the id"
    )


def _matches(kind: Noun, rows: Iterable[Row], wanted: str) -> tuple[list[Row], list[Row]]:
    """Return the rows of which a text is equal to `wanted`, and those of which one contains it."""
    exact, partial = [], []
    for row in rows:
        texts = [text.casefold() for text in _texts(kind, row)]
        if wanted in texts:
            exact.append(row)
        elif wanted and any(wanted in text for text in (*texts, row["id"])):
            partial.append(row)
    return exact, partial


def _texts(kind: Noun, row: Row) -> Iterable[str]:
    for member in kind.texts:
        value = row[member]
        yield from value if isinstance(value, list) else [value] if value else []
    if name := kind.name(row):
        yield name


def _print_candidates(kind: Noun, rows: Sequence[Row]) -> None:
    for row in rows[:_SHOWN_CANDIDATES]:
        print_note(f"  {_candidate(kind, row)}")
    if len(rows) > _SHOWN_CANDIDATES:
        print_note(f"  and {len(rows) - _SHOWN_CANDIDATES:,} more")


def _candidate(kind: Noun, row: Row) -> str:
    name = shorten(printable(kind.name(row) or ""), _LONG_NAME)
    return f"{row['id']} {name}".rstrip()
