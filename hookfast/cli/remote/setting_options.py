"""Options for the settings of a resource, made of their declarations in `hookfast.resources`.

The declarations are imported only when a command that has such options runs or shows its help: they
need Pydantic, whose import takes a third of the time that other commands take in all.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperCommand
from typer.main import get_command

from hookfast.cli.numbers import number_option
from hookfast.strict_json.text import to_text

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

GIVEN = "hookfast.given_settings"
"""The key in a command's `Context.meta` of the settings that were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsOf:
    """Marks a parameter as the settings that were given: the command has an option for each setting
    of a plain kind, and the function gets those given as a dict, by their names in the API.

    `form` is where they are declared, as `module:class`. `names` are the names of options that
    differ from their settings', such as `--active/--inactive`. `readers` read the text of other
    kinds of settings, which have an option then too. Those in `without` have none.
    """

    form: str
    names: Mapping[str, str] = field(default_factory=dict)
    readers: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    without: Collection[str] = ()


def command_class(mark: SettingsOf, *, after: int) -> type[TyperCommand]:
    """Return the class of a command with the options of these settings, which come after so many
    of its parameters."""

    class SettingsCommand(TyperCommand):
        options: tuple[Any, ...] = ()

        def get_params(self, ctx: Any) -> list[Any]:
            if not self.options:
                self.options = tuple(_options(mark))
                self.params[after:after] = self.options
            return super().get_params(ctx)

        def invoke(self, ctx: Any) -> Any:
            given = {each.name: ctx.params.pop(each.name) for each in self.options}
            ctx.meta[GIVEN] = {
                name: mark.readers[name](value) if name in mark.readers else value
                for name, value in given.items()
                if value is not None and value != ()
            }
            return super().invoke(ctx)

    return SettingsCommand


def set_facts(resource: Mapping[str, Any], *, but: Collection[str]) -> dict[str, Any]:
    """Return the members of a resource that have a value, `but` for those that are shown in words
    of their own or not at all."""
    return {
        name.replace("_", " "): to_text(value, layout="spaced")
        if isinstance(value, dict)
        else value
        for name, value in resource.items()
        if value and name not in but
    }


def _options(mark: SettingsOf) -> list[Any]:
    """Return the options, in the order of the declarations."""
    module, _, name = mark.form.partition(":")
    annotations = {
        name: annotation
        for name, declared in getattr(import_module(module), name).model_fields.items()
        if name not in mark.without and (annotation := _annotation(name, declared, mark))
    }

    def take(**_: Any) -> None:
        """Have the parameters of which Typer makes options."""

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in annotations.items()
    ]
    take.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    take.__annotations__ = annotations
    app = typer.Typer(add_completion=False)
    app.command()(take)
    return list(get_command(app).params)


def _annotation(name: str, declared: FieldInfo, mark: SettingsOf) -> Any:
    """Return the type and the option of a setting; None for one of no plain kind."""
    from hookfast.resources.setting import plain_kind, required_type

    kind = "text" if name in mark.readers else plain_kind(declared)
    names = mark.names.get(name, f"--{name.replace('_', '-')}")
    help_text = (declared.description or "").replace("`", "")
    match kind:
        case "whole" | "number":
            number = int if kind == "whole" else float
            option = number_option(names, kind=number, help=help_text, **_bounds(declared))
            return Annotated[number | None, option]
        case "text" | "choice":
            metavar = "|".join(get_args(required_type(declared))) if kind == "choice" else None
            return Annotated[str | None, typer.Option(names, metavar=metavar, help=help_text)]
        case "yes_no":
            both = names if "/" in names else f"{names}/--no-{names.removeprefix('--')}"
            return Annotated[bool | None, typer.Option(both, help=help_text)]
        case "lines":
            return Annotated[list[str] | None, typer.Option(names, help=f"{help_text} Repeatable.")]
    return None


def _bounds(declared: FieldInfo) -> dict[str, Any]:
    """Return the bounds of a number, as `number_option` takes them."""
    found = {
        word: getattr(bound, word)
        for bound in declared.metadata
        for word in ("ge", "gt", "le")
        if hasattr(bound, word)
    }
    least = found.get("ge", found.get("gt", -math.inf))
    return {"least": least, "most": found.get("le"), "exclusive": "gt" in found}
