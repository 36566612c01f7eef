"""`/docs`: the API's interactive description, with every asset served from here, so that it also
works where the internet does not reach. The assets come from the package `fastapi-offline`."""

from __future__ import annotations

from importlib.resources import as_file, files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.staticfiles import StaticFiles
from starlette.responses import HTMLResponse

_ASSETS = "/docs/assets"


def install(app: FastAPI) -> None:
    """Serve the page and its assets."""
    with as_file(files("fastapi_offline") / "static") as folder:
        app.mount(_ASSETS, StaticFiles(directory=folder), name="docs assets")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url=app.openapi_url or "/openapi.json",
            title=f"{app.title} API",
            swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{_ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{_ASSETS}/favicon.png",
        )
