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

_SHOWN: Final = settings_form(Portal)
_OTHERS: Final = ("events", "filter", "data", "type")
"""The members of the API's document besides the settings that have a field of their name."""


def render_form(view: View, template: str, error: HookfastError | None, **values: Any) -> Response:
    """Render a page with a form. After a failed submission, errors of fields that the form shows
    are beside these; the others are above the form, under their labels."""
    above: list[FieldError] = []
    for each in () if error is None else form_errors(error):
        member = each.pointer.strip("/").partition("/")[0]
        setting = _SHOWN.settings.get(member)
        field = error_input(setting) if setting else member if member in _OTHERS else None
        if field is not None:
            view.invalid.setdefault(field, InvalidField(view.form.get(field, ""), each.detail))
        else:
            above.append(FieldError(_SHOWN.label(each.pointer), each.detail))
    status = 200 if error is None else problem_of(error).status
    return view.render(template, status=status, errors=above, **values)
