"""The fields of a submitted HTML form (`application/x-www-form-urlencoded`, WHATWG URL, section 5).

Our forms send no files, so nothing else is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ValidationError

from api.answers.problems import UnsupportedMediaType, invalid_members
from api.http.merge_patch import patch_between
from api.http.request_body import body_to_parse
from hookfast.clock import rfc3339
from hookfast.errors import Conflict, FieldError, HookfastError, InvalidInput
from hookfast.resources.endpoint import EndpointSettings
from hookfast.resources.setting import page_of
from hookfast.resources.source import SourceSettings
from hookfast.resources.subscription import SubscriptionSettings
from hookfast.strict_json import parser
from hookfast.strict_json.parser import MAX_DEPTH, JsonValue

Model = TypeVar("Model", bound=BaseModel)

_MAX_FIELDS: Final = 500
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[Ee][+-]?[0-9]+)?")
_SEVERAL: Final = {"ids", "remove", "ticked"} | {
    name
    for form in (EndpointSettings, SourceSettings, SubscriptionSettings)
    for name, declared in form.model_fields.items()
    if page_of(declared).kind == "checks"
}
"""The fields that are a list. Any other may come only once: otherwise the code that checks it and
the code that uses it could read different values."""


class Form(Mapping[str, str]):
    """The fields by name, without surrounding white space. Of a list, `[...]` returns the last
    value and `all` every one. Raises InvalidInput if another field came more than once."""

    __slots__ = ("_fields",)

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in fields:
            self._fields.setdefault(name, []).append(value.strip())
        for name, values in self._fields.items():
            if len(values) > 1 and name not in _SEVERAL:
                raise InvalidInput("A field of the form came more than once.")

    def __getitem__(self, name: str) -> str:
        return self._fields[name][-1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def text(self, name: str) -> str | None:
        """Return a field's value; None if it is missing or empty."""
        return self.get(name) or None

    def all(self, name: str) -> list[str]:
        """Return the values of a field that are not empty."""
        return [value for value in self._fields.get(name, ()) if value]

    def lines(self, name: str) -> list[str]:
        """Return the lines of a field that are not empty."""
        return [line.strip() for line in self.get(name, "").splitlines() if line.strip()]

    def chosen(self, name: str, options: Collection[str], default: str = "") -> str:
        """Return the option that was chosen in a field. Raises InvalidInput for any other value."""
        value = self.get(name, default)
        if value not in options:
            raise InvalidInput.at(f"/{name}", "choose one of those in the list")
        return value

    def number(self, name: str, *, pointer: str) -> float | None:
        """Return a field's number; None if it is missing or empty. Raises InvalidInput at
        `pointer`."""
        text = self.text(name)
        try:
            number = None if text is None else parse_number(text)
        except ValueError:
            number = math.nan
        if number is not None and not math.isfinite(number):
            raise InvalidInput.at(pointer, "this is not a number")
        return number

    def whole(self, name: str, *, pointer: str) -> int | None:
        """Return a field's whole number; None if it is missing or empty. Raises InvalidInput at
        `pointer`."""
        text = self.text(name)
        try:
            return None if text is None else int(_matching(_WHOLE, text))
        except ValueError:  # also for thousands of digits
            raise InvalidInput.at(pointer, "this is not a whole number") from None

    def json(self, name: str, *, pointer: str) -> JsonValue:
        """Return a field's JSON, parsed as strictly as a request's body; None if it is missing or
        empty. Raises InvalidInput at `pointer`."""
        text = self.text(name)
        try:
            # one level less than a body, because the value becomes a member of one
            return None if text is None else parser.parse(text.encode(), max_depth=MAX_DEPTH - 1)
        except InvalidInput as error:
            detail = error.message.replace("the body is not JSON", "this is not JSON")
            raise InvalidInput.at(pointer, detail, code=error.code) from None


def parse_number(text: str) -> float:
    """Parse a decimal number as people write it; Python alone would also read `1_0` and `nan`.
    Raises ValueError."""
    return float(_matching(_NUMBER, text))


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text.strip()):
        raise ValueError("not a number")
    return text


def validated(kind: type[Model], members: Mapping[str, Any]) -> Model:
    """Return one of the API's forms with these members, validated like a request's body.

    Raises InvalidInput, so that a tampered form does not answer 500.
    """
    try:
        return kind.model_validate(members)
    except ValidationError as error:
        raise invalid_members(error, members) from None


def changed_members(members: Mapping[str, Any], stored: BaseModel) -> dict[str, Any]:
    """Return the merge patch (RFC 7396) with the members that differ from the stored resource."""
    before = stored.model_dump()
    return {
        name: patch_between(before[name], value)
        for name, value in members.items()
        if value != before[name]
    }


def seen_version(updated_at: datetime) -> str:
    """Return the value of a form's hidden field `seen`: the last change that the form shows."""
    return rfc3339(updated_at)


def check_unchanged(form: Form, updated_at: datetime) -> None:
    """Raise Conflict if the resource was changed after the form was rendered: the fields that the
    person left alone would revert that change."""
    if form.text("seen") not in (None, seen_version(updated_at)):
        raise Conflict(
            "Somebody changed this after you opened the form. Check its page: "
            "saving again overwrites their change with the values below.",
            code="changed_meanwhile",
        )


def form_errors(error: HookfastError) -> tuple[FieldError, ...]:
    """Return the errors to show above a form."""
    errors = error.errors if isinstance(error, InvalidInput) else ()
    return errors or (FieldError("", error.message),)


async def read_form(request: Request) -> Form:
    """Return the form in the request's body. Raises UnsupportedMediaType for another media type and
    InvalidInput for a body that cannot be parsed."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise UnsupportedMediaType("This address accepts HTML forms only.")
    try:
        text = (await body_to_parse(request)).decode("ascii")
        fields = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise InvalidInput("The form could not be read.") from None
    if any("\x00" in part for field in fields for part in field):
        raise InvalidInput("A NUL character is not allowed.")
    return Form(fields)
