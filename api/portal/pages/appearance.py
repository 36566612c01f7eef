"""The style sheet of an accent colour, which a page of the portal links after its own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from hookfast.brand import accent_of

routes = APIRouter(include_in_schema=False)


@routes.get("/portal/accent/{color}.css")
async def accent_style(color: Annotated[str, Path(pattern="^[0-9a-f]{6}$")]) -> Response:
    """Return the style sheet of a colour, which depends on nothing else and needs no session."""
    accent = accent_of(f"#{color}")
    style = (
        f":root{{--accent:{accent.ground};--on-accent:{accent.on_ground};"
        f"--link:light-dark({accent.light},{accent.dark});"
        f"--focus:light-dark({accent.light},{accent.dark});"
        f"--accent-strong:color-mix(in srgb,{accent.ground} 85%,black);"
        f"--accent-ground:color-mix(in srgb,{accent.ground} 12%,var(--surface))}}"
    )
    return Response(
        style,
        media_type="text/css",
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )
