"""The filters over lists. One that cannot be right is told of beside its field, on the page of the
list, with the others as they were. No rows are shown then: those without this filter would be
taken for those with it, and acted on."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from api.answers.problems import invalid_request
from api.dashboard.site.page import HOME, View, WrongField
from hookfast.errors import InvalidInput
from hookfast.ids import Prefix

_LISTS: Final = frozenset(
    f"{HOME}/{name}" for name in ("deliveries", "dead-letters", "events", "inbox", "audit")
)
_IDS: Final[Mapping[str, Prefix]] = {"endpoint_id": "ep", "event_id": "evt", "key_id": "key"}
_TYPED: Final = frozenset({*_IDS, "event_type", "type", "reason", "find", "resource_id", "key"})
"""What is typed by hand. A choice that there is not comes from no form of ours."""
_SHORTENED: Final = re.compile(r"[a-z]{2,3}_…[0-9a-f]{1,8}")
"""An id as `short_id` shows it."""


async def filtered(view: View, show: Callable[[Request], Awaitable[Response]]) -> Response:
    """The answer of a page; of a list with a filter that cannot be right, the list's page without
    rows and with what is wrong. Raises what `show` raises for anything else."""
    if view.request.scope["path"] not in _LISTS:
        return await show(view.request)
    _set_aside(view, _shortened(view))
    while True:
        try:
            response = await show(view.request)
            break
        except (InvalidInput, RequestValidationError) as error:
            if not _set_aside(view, _wrong(view, error)):
                raise
    if view.wrong:
        response.status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    return response


def _shortened(view: View) -> dict[str, str]:
    """Ids that were copied from a list: as keys and names they would be looked for in vain."""
    return {
        name: "lists show this id shortened; copy it whole, from its page or its link"
        for name, value in view.request.query_params.items()
        if name in _TYPED and _SHORTENED.fullmatch(value)
    }


def _wrong(view: View, error: InvalidInput | RequestValidationError) -> dict[str, str]:
    """What is wrong with which filter; nothing where it is not about typed ones alone."""
    if isinstance(error, RequestValidationError):
        error = invalid_request(error)
    found = {each.pointer: each.detail for each in error.errors}
    if not set(found) <= _TYPED & set(view.request.query_params):
        return {}
    # the pattern of an id says nothing to whoever typed it
    return found | {
        name: f"a whole id is {_IDS[name]}_ and 32 digits and letters"
        for name in _IDS.keys() & found.keys()
    }


def _set_aside(view: View, wrong: Mapping[str, str]) -> bool:
    """Note what is wrong, and go on without these filters. False where there is none."""
    if not wrong:
        return False
    for name, detail in wrong.items():
        view.wrong[name] = WrongField(view.request.query_params[name], detail)
    scope = view.request.scope
    given = parse_qsl(scope["query_string"].decode("latin-1"))
    kept = [(name, value) for name, value in given if name not in wrong]
    scope["query_string"] = urlencode(kept).encode("ascii")
    view.request = Request(scope, view.request.receive)
    return True
