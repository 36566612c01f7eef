"""The part of a page in which one edits the sample of an event type and sends it as a test."""

from __future__ import annotations

from dataclasses import dataclass

from api.access.authentication import Principal
from api.forms.sample import Origin, sample_of
from api.http.pagination import Page
from api.routes.event_types import EventTypeView, get_event_type, list_event_types
from api.routes.subscriptions import SubscriptionView
from api.site.json_view import pretty
from api.site.page import View
from hookfast.errors import NotFound
from hookfast.events.event_type import matching_patterns
from hookfast.events.operational import is_reserved

_TYPES = Page(limit=200, after=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleEditor:
    """What the editor shows: the event types to choose from, the chosen one (None: there is no
    event type), the text of the data, and where the sample comes from (None: it was typed)."""

    types: list[str]
    type: str | None
    data: str
    origin: Origin | None


async def sample_editor(
    view: View,
    principal: Principal,
    *,
    name: str | None,
    data: str | None = None,
    subscriptions: list[SubscriptionView] | None = None,
) -> SampleEditor:
    """Return the editor for the event type `name` with the `data` that was typed (None: its
    sample). Without a known name it has the first type that one of the `subscriptions` wants."""
    listed = await example_types(view, principal)
    chosen = await _chosen(listed, view, principal, name=name, subscriptions=subscriptions or [])
    names = [each.name for each in listed]
    if chosen is None:
        return SampleEditor(types=names, type=None, data="", origin=None)
    if chosen.name not in names:  # there are more than were listed
        names.insert(0, chosen.name)
    if data is not None:
        return SampleEditor(types=names, type=chosen.name, data=data, origin=None)
    sample = sample_of(chosen.name, chosen.json_schema, now=view.now)
    indented, is_complete = pretty(sample.data)
    text = indented if is_complete else sample.data
    return SampleEditor(types=names, type=chosen.name, data=text, origin=sample.origin)


async def _chosen(
    listed: list[EventTypeView],
    view: View,
    principal: Principal,
    *,
    name: str | None,
    subscriptions: list[SubscriptionView],
) -> EventTypeView | None:
    if name is not None:
        try:
            return await get_event_type(name, view.context, principal)
        except NotFound:
            pass  # of a link that somebody changed, or deleted meanwhile
    patterns = {pattern for each in subscriptions if each.active for pattern in each.events}
    for each in listed:
        if not patterns.isdisjoint(matching_patterns(each.name)):
            return each
    return listed[0] if listed else None


async def example_types(view: View, principal: Principal) -> list[EventTypeView]:
    """Return the event types of which there are samples to send or preview, Hookfast's own last."""
    listed = await list_event_types(_TYPES, view.context, principal)
    return sorted(listed.data, key=lambda each: (is_reserved(each.name), each.name))
