"""A router that skips its routes for a request whose path none of them can match.

Starlette asks one route after the other. For the last of our hundreds of routes, this took a third
to two thirds of the CPU time of a short request.
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette._utils import get_route_path
from starlette.routing import BaseRoute, Match
from starlette.types import Scope


class PrefixRouter(APIRouter):
    """An `APIRouter` that first compares a request's path with the fixed beginnings of its routes'
    paths. It must be included without a further prefix."""

    _known = 0
    _beginnings: tuple[str, ...] = ()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if len(self.routes) != self._known:
            self._beginnings = tuple(set(map(_fixed_beginning, self.routes)))
            self._known = len(self.routes)
        if not get_route_path(scope).startswith(self._beginnings):
            return Match.NONE, {}
        return super().matches(scope)


def _fixed_beginning(route: BaseRoute) -> str:
    """Return the part of the route's path before its first parameter; nothing for other routes than
    `APIRoute`, such as an included router."""
    return route.path.partition("{")[0] if isinstance(route, APIRoute) else ""
