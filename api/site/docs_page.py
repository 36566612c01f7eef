"""The interactive API documentation at `/docs`: Swagger UI with our frame, hue and dark theme. Its
assets, from the package `fastapi-offline`, are served from here, so that it works without internet
access."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import as_file, files
from typing import Any, Final

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.responses import HTMLResponse, Response

from api.answers.page_policy import page_policy
from api.http.response_body import SharedBody
from api.site.static_files import ADDRESSES

_ASSETS: Final = "/docs/assets"
# `docs.js` reads the document's address from `data-document`
_PAGE: Final = f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>API reference · Hookfast</title>
<link rel="icon" type="image/svg+xml" href="{ADDRESSES["mark.svg"]}">
<link rel="stylesheet" href="{ADDRESSES["docs.css"]}">
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header class="top">
<a class="brand" href="/dashboard">
<img src="{ADDRESSES["mark.svg"]}" alt="" width="24" height="24">Hookfast</a>
<nav aria-label="Pages">
<a href="/dashboard">Dashboard</a>
<a href="/docs" aria-current="page">API reference</a>
<a href="/guide">Guide</a>
<a href="/openapi.json">OpenAPI document</a>
</nav>
</header>
<main id="content" tabindex="-1" data-document="/openapi.json">
<noscript><p class="note">This page needs JavaScript. The <a href="/openapi.json">OpenAPI document\
</a> has the same content.</p></noscript>
</main>
<script src="{_ASSETS}/swagger-ui-bundle.js"></script>
<script src="{ADDRESSES["docs.js"]}"></script>
</body>
</html>
"""
_POLICY: Final = page_policy(
    script_src=["'self'"],
    style_src=["'self'"],
    img_src=["'self'", "data:"],  # Swagger UI's style sheet has icons as data URLs
    connect_src=["'self'"],
)


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

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})

    @cache
    def document() -> bytes:  # FastAPI's own route writes a megabyte for each request
        return json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return SharedBody(document(), media_type="application/json")
