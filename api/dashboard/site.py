"""The dashboard as a site: its paths, its session and its content security policy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import Response

from api.answers.page_policy import page_policy
from api.site.navigation import SECTIONS, Section
from api.site.page import View
from api.site.site import Site

_POLICY: Final = page_policy(
    script_src=["'self'"],
    style_src=["'self'"],
    img_src=["'self'"],
    connect_src=["'self'"],
    form_action=["'self'"],
)


async def _prepare(_: View) -> Response | None:
    return None


def _sections(view: View) -> list[Section]:
    return [
        each
        for each in SECTIONS
        if (view.is_operator or not each.operator_only)
        and (view.can_write or not each.writers_only)
    ]


DASHBOARD: Final = Site(
    home="/dashboard",
    without_session="/dashboard/sign-in",
    cookie="hookfast-session",
    by_link=False,
    templates=Path(__file__).parent / "templates",
    prepare=_prepare,
    sections=_sections,
    policy=lambda _: _POLICY,
)
