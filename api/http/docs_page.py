"""The interactive API documentation at `/docs`. Its assets, from the package `fastapi-offline`, are
served from here, so that it works without internet access."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.staticfiles import StaticFiles
from starlette.responses import HTMLResponse, Response

from api.answers.page_policy import inline_scripts, page_policy

_ASSETS = "/docs/assets"


class _Assets(StaticFiles):
    """Static files that caches keep but revalidate by ETag, so that an update shows at once."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["Cache-Control"] = "no-cache"
        return response


def install(app: FastAPI) -> None:
    """Serve the page and its assets."""
    with as_file(files("fastapi_offline") / "static") as folder:
        app.mount(_ASSETS, _Assets(directory=folder), name="docs assets")
    page = get_swagger_ui_html(
        openapi_url=app.openapi_url or "/openapi.json",
        title=f"{app.title} API",
        swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{_ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{_ASSETS}/favicon.png",
    )
    html = bytes(page.body).decode()
    policy = page_policy(
        script_src=["'self'", *inline_scripts(html)],
        style_src=["'self'"],
        img_src=["'self'", "data:"],  # the style sheet has icons as data URLs
        connect_src=["'self'"],
    )

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})
