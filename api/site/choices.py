"""Fields in which one picks an endpoint, tenant, source, event type, API key or reason by its name.

The field suggests the newest; a script asks for others as one types. What was submitted may be a
whole id, a shortened id, a name, or a part of a name or URL that only one has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from sqlalchemy.ext.asyncio import AsyncConnection

from api.forms.search import SearchText
from api.routes.search import scope_of
from api.site.page import Choice, InvalidField, View
from hookfast.deliveries.outcome import Reason
from hookfast.deliveries.wording import reason_text
from hookfast.errors import InvalidInput
from hookfast.events.event_type import is_event_type
from hookfast.ids import Prefix, is_id
from hookfast.storage.events import event_types
from hookfast.storage.search import ids, names
from hookfast.storage.search.hit import Scope
from hookfast.storage.search.names import Name, Named

Kind = Named | Literal["reason"]

OFFERED: Final = 50
"""Suggestions of one field; if there are more, the script asks for those that match."""
SHORTENED: Final = "lists show this id shortened; copy the whole id from its page or its link"
_CANDIDATES: Final = 5
"""Candidates that an error lists."""

_PREFIXES: Final[Mapping[Kind, Prefix]] = {
    "endpoint": "ep",
    "tenant": "tnt",
    "source": "src",
    "api_key": "key",
}
_NOUNS: Final[Mapping[Kind, str]] = {
    "endpoint": "an endpoint",
    "tenant": "a tenant",
    "source": "a source",
    "event_type": "an event type",
    "api_key": "an API key",
    "reason": "a reason",
}
PATHS: Final[Mapping[Kind, str]] = {
    "endpoint": "/choices/endpoints",
    "tenant": "/choices/tenants",
    "source": "/choices/sources",
    "event_type": "/choices/event-types",
    "api_key": "/choices/api-keys",
}
"""Where the script asks for suggestions, below the site's home."""


def may_pick(view: View, kind: Kind) -> bool:
    """Whether this visitor gets suggestions of this kind; otherwise the field takes ids only."""
    if kind == "tenant":
        return view.is_operator and view.tenant_id is None
    if view.endpoint_id is not None:
        return kind == "reason"
    return kind != "api_key" or view.can_write


async def offer(view: View, **fields: Kind) -> None:
    """Load the suggestions of these fields for the page's template."""
    async with view.context.database.read() as connection:
        for field, kind in fields.items():
            if may_pick(view, kind):
                found = await suggest(view, connection, kind, "")
                more = PATHS.get(kind) if len(found) > OFFERED else None
                view.offered[field] = found[:OFFERED], more and view.site.home + more


async def suggest(view: View, connection: AsyncConnection, kind: Kind, text: str) -> list[Choice]:
    """Return the suggestions for a text, one more than are offered; for none, the newest."""
    if kind == "reason":
        return [_of_reason(each) for each in Reason if not each.waits]
    searched = (text,) if text else ()
    found = await names.find(connection, kind, searched, scope=scope_for(view), limit=OFFERED + 1)
    return _choices(found)


async def pick(view: View, field: str, kind: Kind, text: str | None) -> str | None:
    """Return the id (event type, reason) that was picked in a field of the page. None if the field
    is empty or wrong: then the field shows the error."""
    if text is None:
        return None
    async with view.context.database.read() as connection:
        found = await _resolve(view, connection, kind, text)
    if isinstance(found, InvalidField):
        view.invalid[field] = found
        return None
    view.picked[field] = found
    return found.id


async def picked_in_form(view: View, field: str, kind: Kind) -> str | None:
    """Return the id that was picked in a field of a submitted form. Raises InvalidInput."""
    if not may_pick(view, kind):
        return view.form.text(field)
    picked = await pick(view, field, kind, view.form.text(field))
    if (invalid := view.invalid.get(field)) is not None:
        raise InvalidInput.at(f"/{field}", invalid.detail)
    return picked


async def _resolve(
    view: View, connection: AsyncConnection, kind: Kind, text: str
) -> Choice | InvalidField:
    """Return what a text means, or why it does not mean one thing."""
    if kind == "reason":
        return _chosen(kind, text, _matching_reasons(text))
    if kind == "event_type" and await _names_event_type(connection, text):
        return Choice(text, text)
    try:
        search = SearchText.parse(text)
    except InvalidInput as error:
        return InvalidField("", error.message)
    prefix = _PREFIXES.get(kind)
    if prefix is not None and is_id(prefix, search.text):
        return await _named(connection, kind, search.text, scope=scope_for(view))
    if search.ids:
        return InvalidField(text, f"this is an id, but not of {_NOUNS[kind]}")
    if search.shortened is not None:
        if search.shortened[0] == prefix:
            end = search.shortened[1]
            whole = await ids.find_shortened(connection, prefix, end, scope=scope_for(view))
            if len(whole) == 1:
                return await _named(connection, kind, whole[0], scope=scope_for(view))
        return InvalidField(text, SHORTENED)
    found = await names.find(
        connection, kind, search.names, scope=scope_for(view), limit=_CANDIDATES + 1
    )
    exact = [each for each in found if each.is_exactly((search.text, *search.names))]
    return _chosen(kind, text, _choices(exact or found))


def _chosen(kind: Kind, text: str, found: list[Choice]) -> Choice | InvalidField:
    """Return the only choice, or the error for none or several."""
    if len(found) == 1:
        return found[0]
    if not found:
        noun = _NOUNS[kind].partition(" ")[2]
        name = "name or URL" if kind == "endpoint" else "name"
        return InvalidField(text, f"no {noun} has this {name}, or this as a part of it")
    count = f"more than {_CANDIDATES}" if len(found) > _CANDIDATES else str(len(found))
    return InvalidField(text, f"{count} match", tuple(found[:_CANDIDATES]))


async def _named(connection: AsyncConnection, kind: Named, id_: str, *, scope: Scope) -> Choice:
    """Return the choice with this id, under its name if the visitor may see it."""
    hits = await ids.find(connection, _PREFIXES[kind], id_, scope=scope)
    if not hits:
        return Choice(id_, id_)
    title = hits[0].title
    same = await names.find(connection, kind, (title,), scope=scope, limit=_CANDIDATES)
    own = [each for each in _choices(same) if each.id == id_]
    return own[0] if own else Choice(id_, title, unique=False)


def _choices(found: Iterable[Name]) -> list[Choice]:
    """Return the choices for these names."""
    found = list(found)
    times = Counter(each.name.casefold() for each in found)
    return [
        Choice(
            each.id,
            each.name,
            about="" if each.other == each.name else each.other,
            unique=times[each.name.casefold()] == 1,
        )
        for each in found
    ]


def _matching_reasons(text: str) -> list[Choice]:
    if text in list(Reason):
        return [_of_reason(Reason(text))]
    folded = text.casefold()
    every = [_of_reason(each) for each in Reason]
    exact = [each for each in every if each.name.casefold() == folded]
    return exact or [each for each in every if folded in f"{each.id} {each.name}".casefold()]


def _of_reason(reason: Reason) -> Choice:
    return Choice(reason.value, reason_text(reason.value), about=reason.value)


async def _names_event_type(connection: AsyncConnection, text: str) -> bool:
    """Whether the text is a whole event type. Fewer than three parts may be a part of one, unless
    they are registered. A deleted type can be chosen too, because its events remain."""
    if not is_event_type(text):
        return False
    return text.count(".") >= 2 or await event_types.get(connection, text) is not None


def scope_for(view: View) -> Scope:
    assert view.visitor is not None  # noqa: S101 - narrows for the type checker
    return scope_of(view.visitor.principal, view.tenant_id)
