"""The providers, one module each. A new one is found by being here: no list names them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from hookfast.errors import InvalidInput
from hookfast.inbox.provider import Provider, bind


def _found() -> dict[str, type[Provider]]:
    """By name. A module's provider is the one subclass it defines, and they share their name."""
    providers: dict[str, type[Provider]] = {}
    for module_info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        (provider,) = (
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Provider)
            and value.__module__ == module.__name__
        )
        providers[provider.name] = provider
    return providers


PROVIDERS: Mapping[str, type[Provider]] = _found()


def provider(name: str, options: Mapping[str, Any] | None = None, *, pointer: str = "") -> Provider:
    """The provider of this name with a source's options bound.

    Raises InvalidInput: `unknown_provider` at `<pointer>/provider`, or `invalid_options` at members
    of `<pointer>/options`.
    """
    found = PROVIDERS.get(name)
    if found is None:
        raise InvalidInput.at(
            f"{pointer}/provider",
            f"unknown provider; use one of {', '.join(PROVIDERS)}",
            code="unknown_provider",
        )
    return bind(found, options or {}, pointer=f"{pointer}/options")
