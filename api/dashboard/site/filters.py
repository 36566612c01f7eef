"""Invalid filters of lists: the list's page shows the error beside the field and keeps the other
filters. It shows no rows: unfiltered ones would be taken for matches, and acted on."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from api.answers.problems import invalid_request
from api.dashboard.site.page import HOME, InvalidField, View
from api.dashboard.site.time_range import canonical_link
from hookfast.errors import InvalidInput
from hookfast.ids import Prefix

_LISTS: Final = re.compile(
    rf"{HOME}/(deliveries|dead-letters|events|inbox|audit|endpoints/[^/]+/(recover|replay))"
)
"""The lists, and the pages that count what their filter matches."""
_IDS: Final[Mapping[str, Prefix]] = {"endpoint_id": "ep", "event_id": "evt", "key_id": "key"}
_TYPED: Final = frozenset(
    {*_IDS, "event_type", "type", "reason", "answer", "find", "resource_id", "key"}
    | {"since", "until"}
)
"""The filters that people type. An invalid choice cannot come from one of our forms."""
_SHORTENED: Final = re.compile(r"[a-z]{2,3}_…[0-9a-f]{1,8}")
"""An id as `short_id` shortens it."""


async def show_filtered(view: View, show: Callable[[Request], Awaitable[Response]]) -> Response:
    """Return the page that `show` renders. For a list with invalid filters: the page without them,
    with their errors and status 422. Raises any other error of `show`."""
    if _LISTS.fullmatch(view.request.scope["path"]) is None:
        return await show(view.request)
    if (link := canonical_link(view)) is not None:
        return view.redirect(link)
    _remove_filters(view, _shortened_ids(view))
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


def _shortened_ids(view: View) -> dict[str, str]:
    """Return an error per filter with a shortened id: as a key or a name it would match nothing."""
    return {
        name: "lists show this id shortened; copy the whole id from its page or its link"
        for name, value in view.request.query_params.items()
        if name in _TYPED and _SHORTENED.fullmatch(value)
    }


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
    scope = view.request.scope
    given = parse_qsl(scope["query_string"].decode("latin-1"))
    kept = [(name, value) for name, value in given if name not in errors]
    scope["query_string"] = urlencode(kept).encode("ascii")
    view.request = Request(scope, view.request.receive)
    return True
