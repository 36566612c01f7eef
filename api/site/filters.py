"""Invalid filters of lists: the list's page shows the error beside the field and keeps the other
filters. It shows no rows: unfiltered ones would be taken for matches, and acted on."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import parse_qsl, urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from api.answers.problems import invalid_request
from api.forms.search import SHORTENED
from api.site import choices
from api.site.choices import Kind
from api.site.page import InvalidField, View
from api.site.time_range import canonical_link
from hookfast.errors import InvalidInput
from hookfast.ids import Prefix
from hookfast.storage.search import ids

_PICKERS: Final[Mapping[str, dict[str, Kind]]] = {
    "deliveries": {"endpoint_id": "endpoint", "event_type": "event_type"},
    "dead-letters": {"endpoint_id": "endpoint", "event_type": "event_type", "reason": "reason"},
    "events": {"type": "event_type"},
    "inbox": {"source_id": "source", "event_type": "event_type"},
    "audit": {"key_id": "api_key"},
    "jobs": {},
    "activity": {},
    "endpoints": {},
    "sources": {},
    "api-keys": {},
}
_LISTS: Final[Mapping[str, Mapping[str, Kind]]] = {
    f"/{name}": {**pickers, "tenant_id": "tenant"} for name, pickers in _PICKERS.items()
}
"""The lists, by their path below the site's home, and their filters in which one picks something
by its name."""
_COUNTED: Final = re.compile(r"/endpoints/[^/]+/(recover|replay)")
"""The pages that count what their filter matches."""
_IDS: Final[Mapping[str, Prefix]] = {"endpoint_id": "ep", "event_id": "evt", "key_id": "key"}
_TYPED: Final = frozenset(
    {*_IDS, "tenant_id", "source_id", "event_type", "type", "reason", "answer"}
    | {"find", "resource_id", "key", "since", "until"}
)
"""The filters that people type. An invalid choice cannot come from one of our forms."""


async def show_filtered(view: View, show: Callable[[Request], Awaitable[Response]]) -> Response:
    """Return the page that `show` renders. For a list with invalid filters: the page without them,
    with their errors and status 422. Raises any other error of `show`."""
    path = view.request.scope["path"].removeprefix(view.site.home)
    pickers = _LISTS.get(path)
    if pickers is None and _COUNTED.fullmatch(path) is None:
        return await show(view.request)
    if (link := canonical_link(view)) is not None:
        return view.redirect(link)
    await _resolve(view, pickers or {})
    await choices.offer(view, **pickers or {})
    while True:
        try:
            response = await show(view.request)
            break
        except (InvalidInput, RequestValidationError) as error:
            if not _remove_filters(view, _filter_errors(view, error)):
                raise
    if view.invalid:
        response.status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    return response


async def _resolve(view: View, pickers: Mapping[str, Kind]) -> None:
    """Replace the names that were typed, and shortened ids, by whole ids. Remove the filters for
    which that is not possible."""
    whole: dict[str, str | None] = {}
    for name, text in view.request.query_params.items():
        if (kind := pickers.get(name)) is not None and choices.may_pick(view, kind):
            whole[name] = await choices.pick(view, name, kind, text)
        elif name in _TYPED and (match := SHORTENED.fullmatch(text)) is not None:
            whole[name] = await _whole_id(view, cast(Prefix, match[1].lower()), match[2].lower())
            if whole[name] is None:
                view.invalid[name] = InvalidField(text, choices.SHORTENED)
    if whole:
        _replace(view, whole)


async def _whole_id(view: View, prefix: Prefix, end: str) -> str | None:
    """Return the only new id that ends like this."""
    async with view.context.database.read() as connection:
        scope = choices.scope_for(view)
        found = await ids.find_shortened(connection, prefix, end, scope=scope)
    return found[0] if len(found) == 1 else None


def _filter_errors(view: View, error: InvalidInput | RequestValidationError) -> dict[str, str]:
    """Return an error per filter; none if the error is not only about typed filters."""
    if isinstance(error, RequestValidationError):
        error = invalid_request(error)
    details = {each.pointer: each.detail for each in error.errors}
    if not set(details) <= _TYPED & set(view.request.query_params):
        return {}
    # a regular expression would not help the person who typed the id
    return details | {
        name: f"a whole id is {_IDS[name]}_ and 32 digits and letters"
        for name in _IDS.keys() & details.keys()
    }


def _remove_filters(view: View, errors: Mapping[str, str]) -> bool:
    """Remove these filters from the request, and note their errors. False if there are none."""
    if not errors:
        return False
    for name, detail in errors.items():
        view.invalid[name] = InvalidField(view.request.query_params[name], detail)
    _replace(view, dict.fromkeys(errors))
    return True


def _replace(view: View, changes: Mapping[str, str | None]) -> None:
    """Change query parameters of the request; None removes one."""
    scope = view.request.scope
    given = parse_qsl(scope["query_string"].decode("latin-1"))
    new = ((name, changes.get(name, value)) for name, value in given)
    scope["query_string"] = urlencode([pair for pair in new if pair[1] is not None]).encode("ascii")
    view.request = Request(scope, view.request.receive)
