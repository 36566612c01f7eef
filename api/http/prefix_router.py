"""A router that skips its routes for a request whose path none of them can match.

Starlette asks one route after the other. For the last of our hundreds of routes, this took a third
to two thirds of the CPU time of a short request.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette._utils import get_route_path
from starlette.routing import Match
from starlette.types import Scope


class PrefixRouter(APIRouter):
    """An `APIRouter` that first compares a request's path with the fixed beginnings of its routes'
    paths."""

    _beginnings: tuple[str, ...] = ()

    def add_api_route(self, path: str, *arguments: Any, **options: Any) -> None:
        super().add_api_route(path, *arguments, **options)
        beginning = (self.prefix + path).partition("{")[0]
        self._beginnings = tuple({*self._beginnings, beginning})

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not get_route_path(scope).startswith(self._beginnings):
            return Match.NONE, {}
        return super().matches(scope)
