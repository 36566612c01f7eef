"""A group of commands whose modules are imported only when one of them is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.core import TyperGroup
from typer.main import get_group


def lazy_group(*modules: str) -> type[TyperGroup]:
    """The class of a group whose commands are those of `app` in each of `modules`."""

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
