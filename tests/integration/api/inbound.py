"""Requests as providers send them to `POST /in/…`, signed by the providers' own samples."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from typing import Any

import httpx2

from tests.support.seed_inbox import SOURCE_SECRET as SECRET

__all__ = ["SECRET", "post", "send", "signed"]


def signed(
    payload: Any,
    *,
    event: str = "push",
    delivery: str | None = None,
    secret: str = SECRET,
    **headers: str,
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a request from GitHub. Bytes are sent unchanged."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery or str(uuid.uuid4()),
        "X-Hub-Signature-256": f"sha256={mac}",
        **headers,
    }, body


async def send(
    client: httpx2.AsyncClient, source_id: str, payload: Any, **options: Any
) -> httpx2.Response:
    """Send a request from GitHub to a source."""
    headers, body = signed(payload, **options)
    return await post(client, source_id, headers, body)


async def post(
    client: httpx2.AsyncClient, source_id: str, headers: dict[str, str], body: bytes
) -> httpx2.Response:
    """Send a request to a source, without an API key."""
    url = client.base_url.join(f"/in/{source_id}")
    request = client.build_request("POST", url, headers=headers, content=body)
    if "Authorization" not in headers:
        del request.headers["Authorization"]
    return await client.send(request)
