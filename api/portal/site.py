"""The portal as a site: its paths, its session, its look and its content security policy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import Response

from api.answers.page_policy import page_policy
from api.portal.endpoint_scope import confine
from api.site.navigation import Section
from api.site.page import View
from api.site.session import cookie_name, is_framed, set_cookie
from api.site.site import Site
from hookfast.brand import Brand, origin_of, parse_accent

HOME: Final = "/portal"
GUIDE: Final = "/guide"
_ACCENT: Final = "hookfast-portal-accent"
_SECONDS: Final = 31_536_000


def brand_of(view: View) -> Brand:
    """Return the look of the page: the tenant's, else the settings', with the accent colour that an
    embedding page gave."""
    own = None if view.visitor is None else view.visitor.session.tenant_portal
    brand = view.context.settings.brand.of_tenant(own)
    given = view.request.cookies.get(cookie_name(view.request, _ACCENT))
    try:
        return brand if given is None else brand.of_tenant({"accent": parse_accent(given)})
    except ValueError:  # somebody changed the cookie
        return brand


def keep_accent(view: View, response: Response, accent: str | None) -> None:
    """Store the accent colour that an embedding page gave, until it gives none."""
    seconds = 0 if accent is None else _SECONDS
    set_cookie(view.request, response, _ACCENT, accent or "", seconds=seconds)


def _sections(view: View) -> list[Section]:
    guide = Section("guide", "Guide", GUIDE)
    if view.visitor is None:
        return [guide]
    return [
        Section("endpoints", "Endpoint" if view.endpoint_id else "Endpoints", f"{HOME}/endpoints"),
        Section("activity", "Activity", f"{HOME}/activity"),
        Section("event-types", "Event catalogue", f"{HOME}/event-types"),
        guide,
    ]


def _policy(view: View) -> str:
    brand = brand_of(view)
    logo = [] if brand.logo_url is None else [origin_of(brand.logo_url)]
    return page_policy(
        script_src=["'self'"],
        style_src=["'self'"],
        img_src=["'self'", *logo],
        connect_src=["'self'"],
        form_action=["'self'"],
        frame_ancestors=view.context.settings.portal_frame_origins or ["'none'"],
    )


PORTAL: Final = Site(
    home=HOME,
    without_session=f"{HOME}/ended",
    cookie="hookfast-portal",
    by_link=True,
    templates=Path(__file__).parent / "templates",
    prepare=confine,
    sections=_sections,
    policy=_policy,
    beside=(GUIDE,),
    values=lambda view: {"brand": brand_of(view), "is_framed": is_framed(view.request)},
)
