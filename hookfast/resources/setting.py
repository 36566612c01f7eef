"""What the two sites and the command line know about a setting, declared beside its field:

    max_in_flight: Annotated[
        int | None,
        Page(
            group="limits",
            dashboard=Words("Max in flight", fact="{} in flight", unset="any number in flight"),
            portal=Words("Messages at once", fact="{} at once"),
        ),
    ] = Field(None, ge=1, le=1_000, description="Maximum requests in progress.")

The field's type, bounds and description are the API's. A setting of a plain kind (a text, a number,
a choice, yes or no, lines) needs nothing else; `api.site.setting_inputs` reads the other kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Site = Literal["dashboard", "portal"]
Section = Literal["receiver", "sending", "security"]
PlainKind = Literal["text", "whole", "number", "choice", "yes_no", "lines"]
Kind = (
    PlainKind
    | Literal["numbers", "checks", "json", "url", "retry_plan", "circuit", "headers", "fact"]
)


@dataclass(frozen=True, slots=True)
class Words:
    """What one site says about a setting. `options` are the texts of its values, if these are few;
    of yes and no: `{"": …, "yes": …}`."""

    label: str
    _: KW_ONLY
    hint: str = ""
    placeholder: str = ""
    """An example, shown in an empty input; of JSON, only in the error for another value."""
    options: Mapping[str, str] = field(default_factory=dict)
    fact: str = ""
    """How the resource's page shows a value, such as `{} per second`; default: only the value."""
    unset: str = ""
    """What the page shows if there is no value; default: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """How pages show a setting. A site that has no words for it neither shows nor changes it."""

    dashboard: Words | None = None
    portal: Words | None = None
    kind: Kind | None = None
    """How its input works; default: as its type suggests."""
    group: str | None = None
    """Settings of one group are shown as one fact and changed in one form; default: its own."""
    section: Section = "sending"
    """The heading of the dashboard under which it is, if it is an endpoint's."""
    later: bool = False
    """Whether it is left out where a resource is created, and has its own form only."""
    for_polled: bool = False
    """Whether it means something for an endpoint that is polled, which gets no requests."""
    note: str = ""
    """A sentence below its own form."""
    wide: bool = False
    rows: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting as one site shows it."""

    name: str
    kind: Kind
    page: Page
    words: Words
    options: Mapping[str, str]
    """The texts of the values to choose from."""
    default: Any
    is_optional: bool
    """Whether its value may be None."""
    members: tuple[Setting, ...]
    """The settings that it consists of, if it is a group of them in the API's document too."""

    @property
    def group(self) -> str:
        """The name of the group that it belongs to."""
        return self.page.group or self.name


def page_of(declared: FieldInfo) -> Page:
    """Return how pages show a field; one that does not say so is on no page."""
    return next((each for each in declared.metadata if isinstance(each, Page)), Page())


def bare(annotation: Any) -> Any:
    """Return a type without the bounds and checks of its `Annotated`, at any depth."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return bare(arguments[0])
    if origin is None or origin is Literal:
        return annotation
    inner = tuple(bare(each) for each in arguments)
    return reduce(or_, inner) if origin in (Union, UnionType) else origin[inner]


def plain_kind(annotation: Any) -> PlainKind | None:
    """Return the kind of values of this type, which may also allow None; None if it is no plain
    kind."""
    kind = _without_none(bare(annotation))
    plain: Mapping[Any, PlainKind] = {
        str: "text",
        int: "whole",
        float: "number",
        bool: "yes_no",
        list[str]: "lines",
    }
    return "choice" if get_origin(kind) is Literal else plain.get(kind)


def values_of(annotation: Any) -> tuple[str, ...]:
    """Return the values of a choice."""
    return get_args(_without_none(bare(annotation)))


def _without_none(annotation: Any) -> Any:
    """Return the type `X` of `X | None`, and any other type as it is."""
    others = [each for each in get_args(annotation) if each is not NoneType]
    is_optional = NoneType in get_args(annotation) and len(others) == 1
    return others[0] if is_optional else annotation


@lru_cache
def settings_of(form: type[BaseModel], site: Site) -> tuple[Setting, ...]:
    """Return the settings of a form that a site shows, in the form's order."""
    return tuple(
        _setting(name, declared, page, site, words)
        for name, declared in form.model_fields.items()
        if (words := getattr(page := page_of(declared), site)) is not None
    )


def _setting(name: str, declared: FieldInfo, page: Page, site: Site, words: Words) -> Setting:
    kind = page.kind or plain_kind(declared.annotation)
    if kind is None:
        raise TypeError(f"{name}: inputs of its type are of no plain kind; give its page a kind")
    is_optional = NoneType in get_args(declared.annotation)
    inner = _without_none(declared.annotation)
    is_form = isinstance(inner, type) and issubclass(inner, BaseModel)
    options = words.options
    if not options and kind == "yes_no":
        options = {"": "no", "yes": "yes"}
    elif not options and kind == "choice":
        none = {"": words.unset or "default"} if is_optional else {}
        options = none | {each: each for each in values_of(declared.annotation)}
    return Setting(
        name=name,
        kind=kind,
        page=page,
        words=words,
        options=options,
        default=declared.get_default(call_default_factory=True),
        is_optional=is_optional,
        members=settings_of(inner, site) if is_form else (),
    )
