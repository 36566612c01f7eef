"""The inputs of one setting: a value as their contents, and the value that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from api.site.form import Form, parse_number
from hookfast.deliveries.retry_plan import DEFAULT_PLAN
from hookfast.errors import InvalidInput
from hookfast.resources.endpoint import CUSTOM_PLAN
from hookfast.resources.setting import Kind, Setting
from hookfast.strict_json.text import to_text

_WINDOW: Final = "86400"


def filled(setting: Setting, value: Any) -> dict[str, Any]:
    """Return the contents of a setting's inputs, by their names; those of checkboxes are a list."""
    match setting.kind:
        case "retry_plan" if isinstance(value, str):
            return {"plan": value, "own_plan": ""}
        case "retry_plan":
            return {"plan": CUSTOM_PLAN, "own_plan": to_text(value, layout="spaced")}
        case "circuit":
            own = value.model_dump() if isinstance(value, BaseModel) else value
            return merged(filled(each, own.get(each.name)) for each in setting.members)
        case "headers":  # their values are not shown
            return {"headers": "", "remove": []}
        case "fact":
            text = "" if value is None else value.expression
            return {
                "fact_expression": text if isinstance(text, str) else to_text(text),
                "fact_window_seconds": _WINDOW if value is None else str(value.window_seconds),
            }
        case kind:
            return {setting.name: _CONTENTS[kind](value)}


def read(setting: Setting, form: Form, *, parent: str = "") -> Any:
    """Return the value that a setting's inputs give, for the API's document, in which it is a
    member of `parent` (a JSON Pointer). Raises InvalidInput at that member."""
    name, pointer = setting.name, f"{parent}/{setting.name}"
    match setting.kind:
        case "whole":
            return form.whole(name, pointer=pointer)
        case "number":
            return form.number(name, pointer=pointer)
        case "numbers":
            return _numbers(form, name, pointer)
        case "yes_no":
            return form.get(name, "") == "yes"
        case "lines":
            return form.lines(name) or (None if setting.is_optional else [])
        case "checks":
            return form.all(name)
        case "json":
            return _json(setting, form, pointer)
        case "retry_plan":
            return _plan(form)
        case "circuit":
            return _circuit(setting, form)
        case "headers":
            return _headers(form)
        case "fact":
            return _fact(form)
        case "text" | "choice" if setting.is_optional:
            return form.text(name)
        case "text" | "choice" | "url":
            return form.get(name, setting.default or "")


def merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the contents of the inputs of several settings."""
    return {name: value for part in parts for name, value in part.items()}


def error_input(setting: Setting) -> str | None:
    """Return the name of the input that shows the errors of a setting, None if none does."""
    if setting.kind == "retry_plan":
        return "own_plan"
    return None if setting.kind in ("choice", "yes_no", "checks", "circuit") else setting.name


def _numbers(form: Form, name: str, pointer: str) -> list[float] | None:
    try:
        given = form.get(name, "").replace(",", " ").split()
        return [parse_number(each) for each in given] or None
    except ValueError:
        raise InvalidInput.at(pointer, "give seconds, such as 60, 120, 300") from None


def _json(setting: Setting, form: Form, pointer: str) -> Any:
    value = form.json(setting.name, pointer=pointer)
    if value is None and not setting.is_optional:
        return {}
    if not isinstance(value, dict | None):
        example = f", such as {setting.words.placeholder}" if setting.words.placeholder else ""
        raise InvalidInput.at(pointer, f"must be a JSON object{example}")
    return value


def _plan(form: Form) -> str | dict[str, Any]:
    if form.get("plan", DEFAULT_PLAN) != CUSTOM_PLAN:
        return form.get("plan", DEFAULT_PLAN)
    plan = form.json("own_plan", pointer="/retry_plan")
    if not isinstance(plan, dict):
        raise InvalidInput.at(
            "/retry_plan", 'a custom plan is JSON, such as {"delays_seconds": [5, 60, 600]}'
        )
    return plan


def _circuit(setting: Setting, form: Form) -> dict[str, Any]:
    """Return the endpoint's own values; those left empty are the server's."""
    given = {each.name: read(each, form, parent="/circuit") for each in setting.members}
    return {name: value for name, value in given.items() if value is not None}


def _headers(form: Form) -> dict[str, str | None]:
    """Return the headers to set, and None for those to remove."""
    changed: dict[str, str | None] = dict.fromkeys(form.all("remove"))
    for line in form.lines("headers"):
        name, colon, value = line.partition(":")
        if not colon:
            raise InvalidInput.at("/headers", "each line is a name, a colon and a value")
        changed[name.strip()] = value.strip()
    return changed


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


def _json_text(value: Any) -> str:
    shown = value.model_dump() if isinstance(value, BaseModel) else value
    return to_text(shown, layout="indented") if shown else ""


def _number_text(value: float | None) -> str:
    """Return the exact number, because the form saves again what it shows."""
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else repr(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_CONTENTS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    **dict.fromkeys(("text", "choice", "url"), _text),
    **dict.fromkeys(("whole", "number"), _number_text),
    "numbers": lambda value: ", ".join(map(_number_text, value or ())),
    "yes_no": lambda value: "yes" if value else "",
    "lines": lambda value: "\n".join(value or ()),
    "checks": lambda value: value,
    "json": _json_text,
}
"""The contents of the only input of a setting of each of these kinds."""
