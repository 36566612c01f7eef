"""The declarations of settings: what their types mean for pages and the command line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from hookfast.resources.setting import Dashboard, Page, Portal, bare, plain_kind, settings_of

SHORT = Annotated[str, Field(max_length=3)]


class Form(BaseModel):
    text: str
    bounded: SHORT | None = None
    whole: Annotated[int, Field(ge=1)] | None = None
    number: float = 1.5
    choice: Literal["a", "b"] | None = None
    yes_no: bool = False
    lines: list[SHORT] | None = None
    other: dict[str, Any] = Field(default_factory=dict)


def test_types_of_plain_values_have_a_kind() -> None:
    kinds = {name: plain_kind(declared) for name, declared in Form.model_fields.items()}
    plain = ("text", "whole", "number", "choice", "yes_no", "lines")
    assert kinds == {each: each for each in plain} | {"bounded": "text", "other": None}


def test_bare_types_have_no_bounds_at_any_depth() -> None:
    assert bare(list[SHORT] | None) == list[str] | None
    assert bare(dict[SHORT, list[SHORT]]) == dict[str, list[str]]


def test_a_site_shows_the_settings_that_it_has_words_for() -> None:
    class Shown(BaseModel):
        unnamed: int = 1
        both: Annotated[int, Dashboard("Both"), Portal("The both")] = 2
        one: Annotated[
            Literal["a", "b"] | None, Page(group="limits"), Dashboard("One", unset="any")
        ] = None

    both, one = settings_of(Shown, Dashboard)
    assert (both.words.label, both.group, both.default) == ("Both", "both", 2)
    assert (one.group, one.options) == ("limits", {"": "any", "a": "a", "b": "b"})
    assert [each.words.label for each in settings_of(Shown, Portal)] == ["The both"]


def test_values_of_no_plain_kind_need_one() -> None:
    class Shown(BaseModel):
        pairs: Annotated[dict[str, str], Dashboard("Pairs")] = Field(default_factory=dict)

    with pytest.raises(TypeError, match=r"pairs: .* give its page a kind"):
        settings_of(Shown, Dashboard)
