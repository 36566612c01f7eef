"""An endpoint's settings on both sites, and the changes that their forms ask for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from api.forms.endpoint import EndpointView
from api.site.form import Form, changed_members
from api.site.settings_form import SettingsForm, members
from hookfast.resources.endpoint import EndpointSettings, Mode
from hookfast.resources.setting import Setting, Site, settings_of


@cache
def settings_form(site: Site, mode: Mode = "push") -> SettingsForm:
    """Return the settings of endpoints of this mode that a site shows."""
    settings = settings_of(EndpointSettings, site)
    return SettingsForm(each for each in settings if mode == "push" or each.page.for_polled)


def changes(form: Form, settings: Iterable[Setting], endpoint: EndpointView) -> dict[str, Any]:
    """Return the merge patch with these settings where the form differs from the stored endpoint:
    an unchanged URL is not verified again. Raises InvalidInput."""
    given = members(form, settings)
    headers = given.pop("headers", None)
    patch = changed_members(given, endpoint)
    # the stored values are not shown, so what is given is a change
    return patch | ({"headers": headers} if headers else {})
