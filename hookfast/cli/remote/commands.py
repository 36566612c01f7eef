"""Commands with shared groups of options, and groups of commands that are imported on first use.

A group of options is a dataclass:

    @dataclass(frozen=True, kw_only=True)
    class Paging:
        limit: Annotated[int, typer.Option(help="…")] = 50

    @command(app, "list")
    def list_things(paging: Paging, name: str = "") -> None: ...

gives `list` the options `--limit` and `--name`, and calls the function with a `Paging`.

A parameter `Annotated[dict[str, Any], SettingsOf(…)]` gets the settings of a resource that were
given as options, see `setting_options`.

A parameter that is the id of something says of what: `Annotated[str, typer.Argument(),
IdOf("endpoint")]`. People may give a name, a URL or a part of it instead; the function gets the id.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.setting_options import GIVEN, SettingsOf, command_class

Function = TypeVar("Function", bound=Callable[..., None])
Mark = TypeVar("Mark")

_CONTEXT = inspect.Parameter("_", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def command(
    app: typer.Typer, name: str, *, help: str | None = None, panel: str | None = None
) -> Callable[[Function], Function]:
    """Register the decorated function as the command `name` of `app`. `help` replaces its
    docstring; `panel` is the heading it has in the list of commands."""

    def register(function: Function) -> Function:
        flat, kind = _flatten(function)
        app.command(name, cls=kind, help=help, rich_help_panel=panel)(flat)
        return function

    return register


def lazy_group(*modules: str) -> type[TyperGroup]:
    """Return the class of a group that has the commands of each module's `app`, and imports the
    modules only when one of its commands is run or listed."""

    class LazyGroup(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            self._load()
            return super().list_commands(ctx)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            self._load()
            return super().get_command(ctx, cmd_name)

        def _load(self) -> None:
            if not self.commands:
                for module in modules:
                    self.commands.update(get_group(import_module(module).app).commands)

    return LazyGroup


def _flatten(function: Callable[..., None]) -> tuple[Callable[..., None], type[TyperCommand]]:
    """Return `function` with the fields of its dataclass parameters as parameters of its own, and
    the class of its command."""
    hints = get_type_hints(function, include_extras=True)
    own: list[inspect.Parameter] = []
    shared: list[inspect.Parameter] = []
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    settings: dict[str, SettingsOf] = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if (given := _mark(kind, SettingsOf)) is not None:
            settings[parameter.name] = given
        elif is_dataclass(kind) and isinstance(kind, type):
            options = [_parameter(kind, field) for field in fields(kind) if field.init]
            groups[parameter.name] = (kind, [option.name for option in options])
            shared += options
        else:
            own.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))

    command_type = TyperCommand
    for name, found in settings.items():
        command_type = command_class(found, after=len(own))
        shared.append(_CONTEXT.replace(name=name))
    parameters = own + shared
    ids = {
        parameter.name: mark
        for parameter in parameters
        if (mark := _mark(parameter.annotation, IdOf)) is not None
    }

    def run(**values: Any) -> None:
        values |= {name: values[name].meta[GIVEN] for name in settings}
        remote = next(
            (_build(*group, values) for group in groups.values() if group[0] is Remote), None
        )
        if remote is not None and ids:
            remote.resolve_ids(values, ids)
        built = {
            name: remote if kind is Remote else _build(kind, members, values)
            for name, (kind, members) in groups.items()
        }
        function(**values, **built)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = function.__doc__
    return run, command_type


def _build(kind: Callable[..., Any], members: Iterable[str], values: dict[str, Any]) -> Any:
    """Return a `kind` made of these members, which are taken out of `values`."""
    return kind(**{member: values.pop(member) for member in members})


def _mark(annotation: Any, kind: type[Mark]) -> Mark | None:
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, kind)), None)


def _parameter(kind: type[Any], field: Field[Any]) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=get_type_hints(kind, include_extras=True)[field.name],
    )
