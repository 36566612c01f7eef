"""The demo's API client, which does nothing that any HTTP client could not do."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from hookfast.errors import HookfastError

_RETRY_SECONDS = 1.0


class DemoFailed(HookfastError):
    """The API rejected a request of the demo. The message has its response."""

    code = "demo_failed"


class Api:
    """Calls `/v1` with one key. Temporary failures (no connection, 5xx) are retried for ever."""

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
        """Return the JSON at `path`. Raises DemoFailed."""
        return await self._call("GET", path, params=query)

    async def find(self, path: str) -> dict[str, Any] | None:
        """Return the JSON at `path`, or None if the API answers 404. Raises DemoFailed."""
        return await self._call("GET", path, missing_ok=True) or None

    async def send(
        self, method: str, path: str, body: Any = None, *, idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Send JSON and return the JSON of the response. Raises DemoFailed."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return await self._call(method, path, json=body, headers=headers)

    async def _call(
        self, method: str, path: str, *, missing_ok: bool = False, **more: Any
    ) -> dict[str, Any]:
        while True:
            try:
                response = await self._client.request(method, path, **more)
            except httpx2.TransportError:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if response.status_code >= 500:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if response.status_code == 404 and missing_ok:
                return {}
            if response.is_error:
                raise DemoFailed(
                    f"{method} {path} was answered {response.status_code}: {response.text}"
                )
            document: dict[str, Any] = response.json()
            return document
