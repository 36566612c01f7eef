"""The fields of a form mean one thing each, and their numbers and JSON are read strictly."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from api.site.form import Form, validated
from hookfast.errors import InvalidInput

LONG = "9" * 5_000


def form(**fields: str) -> Form:
    return Form(list(fields.items()))


@pytest.mark.parametrize("name", ["endpoint_id", "csrf", "back"])
@pytest.mark.parametrize("values", [("a", ""), ("", "a"), ("a", " "), ("a", "a"), ("a", "b")])
def test_a_field_that_comes_twice_is_refused(name: str, values: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput):
        Form([(name, value) for value in values])


def test_lists_may_have_several_values() -> None:
    sent = Form([("ids", "a"), ("ids", ""), ("ids", "b"), ("signatures", "hook")])
    assert sent.all("ids") == ["a", "b"]
    assert sent.all("signatures") == ["hook"]


@pytest.mark.parametrize(("text", "number"), [("0.1234567", 0.1234567), (" 5 ", 5.0), ("", None)])
def test_numbers_are_read(text: str, number: float | None) -> None:
    assert form(rate=text).number("rate", pointer="/rate") == number


@pytest.mark.parametrize(
    "text", ["nan", "Infinity", "-inf", "1e999", "x", "1,5", "1_0", "١٢", LONG]
)
def test_value_that_is_not_a_finite_number_is_rejected_at_its_place(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        form(rate=text).number("rate", pointer="/rate")
    assert [error.pointer for error in refused.value.errors] == ["/rate"]


@pytest.mark.parametrize("text", ["1.5", "1e3", "x", "1_0", "١٢", LONG])
def test_text_that_is_not_a_whole_number_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        form(most=text).whole("most", pointer="/most")
    assert form(most="12").whole("most", pointer="/most") == 12
    assert form(most="").whole("most", pointer="/most") is None


@pytest.mark.parametrize(
    "text",
    [
        *("NaN", "[1e999]", "[-Infinity]", r'"\ud800"', r'{"\u0000": 1}', '{"a": 1, "a": 2}'),
        *("{", "[1] 2", f"[{LONG}]", "[" * 60_000, "[" * 64 + "]" * 64),
    ],
)
def test_json_is_as_strict_as_a_bodys(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        form(schema=text).json("schema", pointer="/schema")
    assert [error.pointer for error in refused.value.errors] == ["/schema"]
    assert "body" not in refused.value.message


def test_json_is_read() -> None:
    assert form(schema='{"type": ["string", null]}').json("schema", pointer="/schema") == {
        "type": ["string", None]
    }
    deepest = "[" * 63 + "]" * 63
    assert form(schema=deepest).json("schema", pointer="/schema") is not None
    assert form(schema=" ").json("schema", pointer="/schema") is None


def test_a_form_of_the_api_says_what_is_wrong_with_a_member() -> None:
    class Asked(BaseModel):
        most: int

    assert validated(Asked, {"most": 3}).most == 3
    with pytest.raises(InvalidInput) as refused:
        validated(Asked, {"most": "many"})
    assert [error.pointer for error in refused.value.errors] == ["/most"]
