"""The pages' style sheet, script and icon. Their addresses contain a hash of their content, so
that browsers cache them for good and a new version shows at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

from fastapi import APIRouter, Response

from hookfast.errors import NotFound

PREFIX = "/assets"
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

routes = APIRouter()


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    media_type: str


def _load() -> tuple[dict[str, _File], dict[str, str]]:
    loaded: dict[str, _File] = {}
    addresses: dict[str, str] = {}
    for file in (files("api.site") / "static").iterdir():
        stem, _, suffix = file.name.rpartition(".")
        if suffix in _TYPES:
            content = _compact(file.read_bytes(), suffix)
            hashed = f"{stem}.{hashlib.sha256(content).hexdigest()[:16]}.{suffix}"
            loaded[hashed] = _File(content, _TYPES[suffix])
            addresses[file.name] = f"{PREFIX}/{hashed}"
    return loaded, addresses


def _compact(content: bytes, suffix: str) -> bytes:
    """Return a file without its indentation and comments of whole lines. Pages are light: what
    explains the source is not sent."""
    if suffix == "css":
        content = re.sub(rb"/\*.*?\*/", b"", content, flags=re.DOTALL)
        content = re.sub(rb"\s*([{};,])\s*", rb"\1", content)
        content = re.sub(rb"([{;][a-z-]+): ", rb"\1:", content).replace(b";}", b"}")
    elif suffix == "js":
        content = re.sub(rb"^\s*//.*$", b"", content, flags=re.MULTILINE)
    return re.sub(rb"\n\s*", b"\n", content)


_FILES, _ADDRESSES = _load()
ADDRESSES: Mapping[str, str] = MappingProxyType(_ADDRESSES)
"""The address of each file by its name: `site.css` → `/assets/site.….css`."""


@routes.get(PREFIX + "/{name}", include_in_schema=False)
async def static_file(name: str) -> Response:
    """Return a file. It needs no session."""
    file = _FILES.get(name)
    if file is None:
        raise NotFound("There is no such file.")
    return Response(
        file.content,
        media_type=file.media_type,
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )
