"""The fields of a submitted HTML form (`application/x-www-form-urlencoded`, WHATWG URL, section 5).

Our forms send no files, so nothing else is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ValidationError

from api.answers.problems import UnsupportedMediaType, invalid_members
from api.http.request_body import body_to_parse
from hookfast.clock import rfc3339
from hookfast.errors import Conflict, FieldError, HookfastError, InvalidInput
from hookfast.strict_json import parser
from hookfast.strict_json.parser import MAX_DEPTH, JsonValue

Model = TypeVar("Model", bound=BaseModel)

_MAX_FIELDS: Final = 500
_SEVERAL: Final = ("ids", "signatures")
"""The fields that are a list. Any other comes once, or it would mean one thing to whoever checks it
and another to whoever uses it."""


class Form(Mapping[str, str]):
    """The fields by name, white space around them left out. Raises InvalidInput where one that is
    no list came several times. Of a list `[...]` gives the last and `all` every one."""

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
        """A field's value; None where it is missing or empty."""
        return self.get(name) or None

    def all(self, name: str) -> list[str]:
        """Every value of a field that is not empty."""
        return [value for value in self._fields.get(name, ()) if value]

    def lines(self, name: str) -> list[str]:
        """The lines of a field that are not empty."""
        return [line.strip() for line in self.get(name, "").splitlines() if line.strip()]

    def number(self, name: str, *, pointer: str) -> float | None:
        """A field's number; None where it is missing or empty. Raises InvalidInput at `pointer`."""
        text = self.text(name)
        try:
            number = None if text is None else float(text)
        except ValueError:
            number = math.nan
        if number is not None and not math.isfinite(number):
            raise InvalidInput.at(pointer, "this is not a number")
        return number

    def whole(self, name: str, *, pointer: str) -> int | None:
        """As `number`, without a fraction."""
        text = self.text(name)
        try:
            return None if text is None else int(text)
        except ValueError:  # which thousands of digits are too
            raise InvalidInput.at(pointer, "this is not a whole number") from None

    def json(self, name: str, *, pointer: str) -> JsonValue:
        """A field's JSON, read as strictly as a request's body; None where it is missing or empty.
        Raises InvalidInput at `pointer`."""
        text = self.text(name)
        try:
            # one level less than a body may have, of which it is to be a member
            return None if text is None else parser.parse(text.encode(), max_depth=MAX_DEPTH - 1)
        except InvalidInput as error:
            what = error.message.replace("the body is not JSON", "this is no JSON")
            raise InvalidInput.at(pointer, what, code=error.code) from None


def filled(kind: type[Model], members: Mapping[str, Any]) -> Model:
    """One of the API's forms with these members, checked as a request's body is. Raises
    InvalidInput: what a form was made to say must not look like a failure of ours."""
    try:
        return kind.model_validate(members)
    except ValidationError as error:
        raise invalid_members(error, members) from None


def seen(updated_at: datetime) -> str:
    """What a form that changes something carries: as of when it shows it."""
    return rfc3339(updated_at)


def check_unchanged(form: Form, updated_at: datetime) -> None:
    """Raises Conflict where something was changed after a form that shows it was made: the fields
    that nobody touched would set that back."""
    if form.text("seen") not in (None, seen(updated_at)):
        raise Conflict(
            "It was changed after you opened this form. Check its page: "
            "saving again replaces that with what is below.",
            code="changed_meanwhile",
        )


def faults(error: HookfastError) -> tuple[FieldError, ...]:
    """What is wrong with a form, to be told above it."""
    found = error.errors if isinstance(error, InvalidInput) else ()
    return found or (FieldError("", error.message),)


async def read_form(request: Request) -> Form:
    """The form in the request's body. Raises UnsupportedMediaType for another type of body and
    InvalidInput for bytes that are no form."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise UnsupportedMediaType("This address takes HTML forms.")
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
