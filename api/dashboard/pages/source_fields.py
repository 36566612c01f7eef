"""A source's settings on the dashboard, and the names of the providers."""

from __future__ import annotations

from typing import Final

from api.site.settings_form import SettingsForm
from hookfast.inbox import PROVIDERS
from hookfast.resources.setting import Dashboard, settings_of
from hookfast.resources.source import SourceSettings

SHOWN: Final = SettingsForm(settings_of(SourceSettings, Dashboard))
TITLES: Final = {name: each.title for name, each in PROVIDERS.items()}
"""The providers' names for people."""
GENERATES_SECRET: Final = tuple(name for name, each in PROVIDERS.items() if each.lets_choose_secret)
"""The providers that accept any secret, so that Hookfast can generate it."""
