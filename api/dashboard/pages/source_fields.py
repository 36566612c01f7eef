"""A source's settings as the fields of a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api.forms.source import SourceView
from api.site.form import Form
from hookfast.errors import InvalidInput
from hookfast.inbox import PROVIDERS
from hookfast.strict_json.text import to_text

TITLES: Final = {name: each.title for name, each in PROVIDERS.items()}
"""The providers' names for people."""
GENERATES_SECRET: Final = tuple(name for name, each in PROVIDERS.items() if each.lets_choose_secret)
"""The providers that accept any secret, so that Hookfast can generate it."""
_OBJECTS: Final = {
    "options": '{"tolerance_seconds": 300}',
    "event_types": '{"github.push.received": "code.branch.pushed"}',
}


def new_fields() -> dict[str, Any]:
    """Return the fields of the form for a new source."""
    return {
        "name": "",
        "provider": "github",
        "allowed_networks": "",
        "id_expression": "",
        "fact_expression": "",
        "fact_window_seconds": "86400",
        **dict.fromkeys(_OBJECTS, ""),
    }


def stored_fields(source: SourceView) -> dict[str, Any]:
    """Return the fields of the form with a source's settings."""
    fact = source.idempotency
    expression = "" if fact is None else fact.expression
    return {
        "name": source.name,
        "provider": source.provider,
        "allowed_networks": "\n".join(source.allowed_networks),
        "id_expression": source.id_expression or "",
        "fact_expression": expression if isinstance(expression, str) else to_text(expression),
        "fact_window_seconds": "86400" if fact is None else str(fact.window_seconds),
        "options": _text(source.options),
        "event_types": _text(source.event_types),
    }


def submitted_fields(form: Form) -> dict[str, Any]:
    """Return the submitted fields, to show them again beside the errors."""
    return {name: form.get(name, "") for name in new_fields()}


def api_members(form: Form) -> dict[str, Any]:
    """Return the fields as members of the API's document.

    Raises InvalidInput for a field that is not the number or JSON it should be.
    """
    return {
        "name": form.get("name", ""),
        "allowed_networks": form.lines("allowed_networks"),
        "id_expression": form.text("id_expression"),
        "idempotency": _fact(form),
        **{name: _object(form, name) for name in _OBJECTS},
    }


def _fact(form: Form) -> dict[str, Any] | None:
    text = form.text("fact_expression")
    if text is None:
        return None
    window = form.whole("fact_window_seconds", pointer="/idempotency/window_seconds")
    if window is None:
        raise InvalidInput.at("/idempotency/window_seconds", "give the window in seconds")
    pointer = "/idempotency/expression"
    return {
        "expression": form.json("fact_expression", pointer=pointer) if text[0] == "{" else text,
        "window_seconds": window,
    }


def _object(form: Form, name: str) -> dict[str, Any]:
    value = {} if form.text(name) is None else form.json(name, pointer=f"/{name}")
    if not isinstance(value, dict):
        raise InvalidInput.at(f"/{name}", f"must be a JSON object, such as {_OBJECTS[name]}")
    return value


def _text(value: Mapping[str, Any]) -> str:
    return to_text(value, layout="indented") if value else ""
