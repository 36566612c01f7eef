"""The demo's caller of the API: any HTTP client does what this one does."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from hookfast.errors import HookfastError

_AWAY_SECONDS = 1.0


class DemoFailed(HookfastError):
    """The API did not do what the demo asked of it. The message has its answer."""

    code = "demo_failed"


class Api:
    """Calls `/v1` with one key. What fails for now (no connection, 5xx) is tried again for ever."""

    def __init__(self, url: str, *, key: str) -> None:
        self._client = httpx2.AsyncClient(
            base_url=f"{url}/v1",
            headers={"Authorization": f"Bearer {key}"},
            timeout=30,
            trust_env=False,
        )

    async def __aenter__(self) -> Api:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        """The JSON at `path`. Raises DemoFailed."""
        return await self._call("GET", path, params=query)

    async def find(self, path: str) -> dict[str, Any] | None:
        """The JSON at `path`; None where there is none. Raises DemoFailed."""
        return await self._call("GET", path, missing_ok=True) or None

    async def send(
        self, method: str, path: str, body: Any = None, *, idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Send JSON, get JSON. Raises DemoFailed."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return await self._call(method, path, json=body, headers=headers)

    async def _call(
        self, method: str, path: str, *, missing_ok: bool = False, **more: Any
    ) -> dict[str, Any]:
        while True:
            try:
                answer = await self._client.request(method, path, **more)
            except httpx2.TransportError:
                await asyncio.sleep(_AWAY_SECONDS)
                continue
            if answer.status_code >= 500:
                await asyncio.sleep(_AWAY_SECONDS)
                continue
            if answer.status_code == 404 and missing_ok:
                return {}
            if answer.is_error:
                raise DemoFailed(
                    f"{method} {path} was answered {answer.status_code}: {answer.text}"
                )
            document: dict[str, Any] = answer.json()
            return document
