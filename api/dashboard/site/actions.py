"""Actions: forms whose effect is one call of a route function of the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, Response

from api.dashboard.site.page import PageView


def add_action(
    routes: APIRouter,
    path: str,
    act: Callable[..., Any],
    *,
    notice: str | Callable[[Any], str],
    leads_to: str | None = None,
) -> None:
    """Accept the form at `path`: call `act`, then show `notice` on the form's page or `leads_to`.

    FastAPI calls `act` as it does for the API, with the path's parameters, the audit log and the
    principal, whose scope it checks. `notice` may be computed from its result.
    """

    @routes.post(path)
    async def action(view: PageView, result: Any = Depends(act)) -> Response:
        text = notice if isinstance(notice, str) else notice(result)
        return view.redirect_back(text) if leads_to is None else view.redirect(leads_to, text)
