"""Errors of the portal's forms, each beside its field."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Response

from api.answers.problems import problem_of
from api.site.endpoint_fields import settings_form
from api.site.form import form_errors
from api.site.page import InvalidField, View
from api.site.setting_inputs import error_input
from hookfast.errors import FieldError, HookfastError
from hookfast.resources.setting import Portal

_FIELDS: Final = {
    **{each.name: error_input(each) for each in settings_form(Portal).settings.values()},
    **{name: name for name in ("events", "filter", "data", "type")},
}
"""The inputs that show their error, by the member of the API's document."""


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
