"""A resource's settings on one site: the inputs of its forms, and the facts of its page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from api.site.form import Form
from api.site.formatting import number
from api.site.setting_inputs import filled, merged, read
from hookfast.resources.setting import Setting
from hookfast.strict_json.text import to_text

_TITLES: Final = {"retries": "Retries and timeout", "limits": "Limits"}
"""The titles of groups that have another one than the label of their first setting."""


@dataclass(frozen=True, slots=True)
class Group:
    """Settings that a page shows as one fact and one form changes."""

    name: str
    title: str
    settings: tuple[Setting, ...]

    def fact(self, resource: BaseModel, *, without: Collection[str] = ()) -> str:
        """Return the settings of a resource in words, but for those of the names `without`."""
        texts = [
            self._words(each, getattr(resource, each.name)) or each.words.unset
            for each in self.settings
            if each.name not in without
        ]
        return ", ".join(filter(None, texts))

    def set_facts(self, resource: BaseModel) -> str:
        """Return the settings that a resource has set in words; '' if none is."""
        texts = [self._words(each, getattr(resource, each.name)) for each in self.settings]
        return ", ".join(filter(None, texts))

    def _words(self, setting: Setting, value: Any) -> str:
        """Return a value in words; '' if it is not set. Where a group has several settings, the
        words say which one it is, unless the setting declares its own."""
        text = _text(setting, value)
        if not text or setting.words.fact:
            return text and setting.words.fact.format(text)
        return f"{setting.words.label}: {text}" if len(self.settings) > 1 else text


class SettingsForm:
    """The settings of a resource that a site shows, by their names, and their groups."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        self.settings: Mapping[str, Setting] = {each.name: each for each in settings}
        grouped: dict[str, list[Setting]] = {}
        for each in self.settings.values():
            grouped.setdefault(each.group, []).append(each)
        self.groups: Mapping[str, Group] = {
            name: Group(name, _TITLES.get(name, group[0].words.label), tuple(group))
            for name, group in grouped.items()
        }

    def label(self, pointer: str) -> str:
        """Return what a form calls a member of the API's document, given by its JSON Pointer: the
        label of its input, and which of several entries it is. Other members keep their names."""
        name, *rest = pointer.strip("/").split("/")
        setting = self.settings.get(name)
        if setting is None:
            return pointer
        if rest and (member := next((m for m in setting.members if m.name == rest[0]), None)):
            setting, rest = member, rest[1:]
        places = (f"entry {int(part) + 1}" if part.isdecimal() else part for part in rest)
        return ", ".join((setting.words.label, *places))

    def new(self) -> dict[str, Setting]:
        """Return the settings in the form of a new resource."""
        return {name: each for name, each in self.settings.items() if not each.page.later}

    def new_fields(self) -> dict[str, Any]:
        """Return the values of all inputs for a new resource."""
        return merged(filled(each, each.default) for each in self.settings.values())

    def stored_fields(self, resource: BaseModel) -> dict[str, Any]:
        """Return the values of all inputs for a stored resource."""
        settings = self.settings.values()
        return merged(filled(each, getattr(resource, each.name)) for each in settings)

    def submitted_fields(self, form: Form) -> dict[str, Any]:
        """Return the submitted values of all inputs, to show them again beside the errors."""
        return {
            name: form.all(name) if isinstance(empty, list) else form.get(name, "")
            for name, empty in self.new_fields().items()
        }


def members(form: Form, settings: Iterable[Setting]) -> dict[str, Any]:
    """Return the members of the API's document that the inputs of these settings give; None means
    the default. Raises InvalidInput for an input that is not the number or JSON it should be."""
    return {each.name: read(each, form) for each in settings}


def _text(setting: Setting, value: Any) -> str:
    if value is None or value is False or value in ("", [], {}):
        return ""
    match setting.kind:
        case "whole" | "number":
            return number(value)
        case "choice" | "yes_no":
            return setting.options.get("yes" if value is True else value, str(value))
        case "json":
            return to_text(value, layout="spaced")
        case _:
            return value if isinstance(value, str) else ", ".join(map(str, value))
