"""What pages and the command line know about a setting, declared beside its field:

    rate_limit_per_second: Annotated[
        float | None,
        Page(group="limits"),
        Dashboard("Rate limit per second", fact="{} per second", unset="no rate limit"),
        Portal("Messages per second", fact="{} per second"),
    ] = Field(None, ge=0.00001, le=10_000, description="Maximum deliveries per second.")

A site that has no words for a setting neither shows nor changes it. A setting of a plain kind (a
text, a number, a choice, yes or no, lines) needs nothing else to have an input and a fact on pages,
and an option of the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

PlainKind = Literal["text", "whole", "number", "choice", "yes_no", "lines"]
Kind = (
    PlainKind
    | Literal["numbers", "checks", "json", "url", "retry_plan", "circuit", "headers", "fact"]
)
Section = Literal["receiver", "sending", "security"]
_Declared = TypeVar("_Declared")

_PLAIN: Mapping[Any, PlainKind] = {
    str: "text",
    int: "whole",
    float: "number",
    bool: "yes_no",
    list[str]: "lines",
}


@dataclass(frozen=True, slots=True)
class Page:
    """How pages show a setting, on either site."""

    _: KW_ONLY
    kind: Kind | None = None  # default: as its type suggests
    group: str | None = None  # shown as one fact and changed in one form; default: its own
    section: Section = "sending"  # the heading of an endpoint's settings that it is under
    later: bool = False  # not in the form of a new resource, only in a form of its own
    for_polled: bool = False  # means something for a polled endpoint, which gets no requests
    note: str = ""  # a sentence below its own form
    wide: bool = False
    rows: int = 2


@dataclass(frozen=True, slots=True)
class Words:
    """What one site says about a setting."""

    label: str
    hint: str = ""
    _: KW_ONLY
    placeholder: str = ""  # of JSON, shown only in the error for another value
    options: Mapping[str, str] = field(
        default_factory=dict
    )  # texts of values; "yes" and "" of bool
    fact: str = ""  # how facts show a value, such as "{} per second"; default: only the value
    unset: str = ""  # what facts show without a value; default: nothing


class Dashboard(Words):
    """What the dashboard says about a setting."""


class Portal(Words):
    """What the portal says about a setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting as one site shows it."""

    name: str
    kind: Kind
    page: Page
    words: Words
    options: Mapping[str, str]
    default: Any
    is_optional: bool  # its value may be None
    members: tuple[Setting, ...]  # if it consists of several in the API's document

    @property
    def group(self) -> str:
        """The name of the group that it belongs to."""
        return self.page.group or self.name


def page_of(declared: FieldInfo) -> Page:
    """Return how pages show a field."""
    return _declared(declared, Page) or Page()


def settings_of(form: type[BaseModel], site: type[Words]) -> tuple[Setting, ...]:
    """Return the settings of a form that a site shows, in the form's order."""
    return tuple(
        _setting(name, declared, words)
        for name, declared in form.model_fields.items()
        if (words := _declared(declared, site)) is not None
    )


def bare(annotation: Any) -> Any:
    """Return a type without the bounds and checks of its `Annotated`, at any depth."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return bare(arguments[0])
    if origin is None or origin is Literal:
        return annotation
    inner = tuple(bare(each) for each in arguments)
    return reduce(or_, inner) if origin in (Union, UnionType) else origin[inner]


def required_type(declared: FieldInfo) -> Any:
    """Return the bare type of a field's values, without None."""
    kind = bare(declared.annotation)
    others = [each for each in get_args(kind) if each is not NoneType]
    return reduce(or_, others) if get_origin(kind) in (Union, UnionType) else kind


def plain_kind(declared: FieldInfo) -> PlainKind | None:
    """Return the kind of a field's values, None if they are of no plain kind."""
    kind = required_type(declared)
    return "choice" if get_origin(kind) is Literal else _PLAIN.get(kind)


def _declared(declared: FieldInfo, kind: type[_Declared]) -> _Declared | None:
    return next((each for each in declared.metadata if isinstance(each, kind)), None)


def _setting(name: str, declared: FieldInfo, words: Words) -> Setting:
    page, values = page_of(declared), required_type(declared)
    kind = page.kind or plain_kind(declared)
    if kind is None:
        raise TypeError(f"{name}: values of its type are of no plain kind; give its page a kind")
    is_optional = NoneType in get_args(declared.annotation)
    options = words.options
    if not options and kind == "yes_no":
        options = {"": "no", "yes": "yes"}
    elif not options and kind == "choice":
        none = {"": words.unset or "default"} if is_optional else {}
        options = none | {each: each for each in get_args(values)}
    is_form = isinstance(values, type) and issubclass(values, BaseModel)
    return Setting(
        name=name,
        kind=kind,
        page=page,
        words=words,
        options=options,
        default=None if declared.is_required() else declared.get_default(call_default_factory=True),
        is_optional=is_optional,
        members=settings_of(values, type(words)) if is_form else (),
    )
