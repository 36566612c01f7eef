"""An endpoint's settings on both sites, and the changes that their forms ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from api.forms.endpoint import EndpointView
from api.site.form import Form, changed_members
from api.site.moved_credentials import given_again
from api.site.setting_inputs import read
from api.site.settings_form import SettingsForm, members
from hookfast.resources.endpoint import EndpointSettings, Mode
from hookfast.resources.setting import Dashboard, Portal, Setting, Words, settings_of

_FORMS: Final[Mapping[tuple[type[Words], Mode], SettingsForm]] = {
    (site, mode): SettingsForm(
        each
        for each in settings_of(EndpointSettings, site)
        if mode == "push" or each.page.for_polled
    )
    for site in (Dashboard, Portal)
    for mode in get_args(Mode)
}


_HEADERS: Final = _FORMS[Dashboard, "push"].settings["headers"]
"""A form with the URL has their inputs too, when the URL gets another host."""


def settings_form(site: type[Words], mode: Mode = "push") -> SettingsForm:
    """Return the settings of endpoints of this mode that a site shows."""
    return _FORMS[site, mode]


def changes(form: Form, settings: Iterable[Setting], endpoint: EndpointView) -> dict[str, Any]:
    """Return the merge patch with these settings where the form differs from the stored endpoint:
    an unchanged URL is not verified again. It also has the credentials that the form asks for when
    the URL gets another host. Raises InvalidInput."""
    given = members(form, settings)
    given.pop("headers", None)
    patch = changed_members(given, endpoint)
    # the stored values are not shown, so what is given is a change
    headers = read(_HEADERS, form)
    return patch | ({"headers": headers} if headers else {}) | given_again(form, endpoint)
