"""Errors of the portal's forms, each beside its field."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Response

from api.answers.problems import problem_of
from api.site.form import form_errors
from api.site.page import InvalidField, View
from hookfast.errors import FieldError, HookfastError

_FIELDS: Final = {
    "url": "url",
    "events": "events",
    "description": "description",
    "owner_emails": "owner_emails",
    "timeout_seconds": "timeout_seconds",
    "rate_limit_per_second": "rate_limit_per_second",
    "max_in_flight": "max_in_flight",
    "retry_plan": "own_plan",
    "headers": "headers",
    "filter": "filter",
    "data": "data",
    "type": "type",
}
"""The fields that show their error, by the member of the API's document."""


def render_form(view: View, template: str, error: HookfastError | None, **values: Any) -> Response:
    """Render a page with a form. After a failed submission, each error is beside its field, if the
    form has one; the others are above the form."""
    above: list[FieldError] = []
    for each in () if error is None else form_errors(error):
        field = _FIELDS.get(each.pointer.strip("/").partition("/")[0])
        if field is None:
            above.append(each)
        else:
            view.invalid.setdefault(field, InvalidField(view.form.get(field, ""), each.detail))
    status = 200 if error is None else problem_of(error).status
    return view.render(template, status=status, errors=above, **values)
