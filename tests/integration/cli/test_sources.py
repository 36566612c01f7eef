"""`hookfast sources` and `hookfast inbox`: from a new source to the requests it received."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.integration.api.inbound import SECRET, signed
from tests.integration.cli.conftest import Run
from tests.support.api_client import Json
from tests.support.api_server import ApiServer

pytestmark = pytest.mark.anyio


async def send(url: str, payload: Any, **options: Any) -> Json:
    headers, body = signed(payload, **options)
    async with httpx2.AsyncClient() as client:
        answer = await client.post(url, headers=headers, content=body)
    document: Json = answer.json()
    return document


async def test_source_is_created_used_rotated_and_deleted(
    hookfast: Run, served: ApiServer, endpoint: Json
) -> None:
    tenant = endpoint["tenant_id"]
    created = await hookfast(
        *("sources", "create", "storefront", "--provider", "github", "--tenant", tenant),
        *("--secret-file", "-"),
        stdin=f"{SECRET}\n",
    )
    assert created.code == 0, created.err
    assert SECRET not in created.out + created.err
    source = created.out.split()[1]
    first = await send(f"{served.url}/in/{source}", {"n": 1}, delivery="one")
    assert first["status"] == "accepted"

    listed = await hookfast("inbox", "list", "--source", source)
    assert [first["id"], "accepted", "github.push.received", "id:one"] == listed.out.splitlines()[
        1
    ].split()[:4]
    shown = await hookfast("inbox", "show", first["id"])
    assert first["event_id"] in shown.out
    failed = await hookfast("inbox", "retry", first["id"])
    assert (failed.code, "this one is accepted" in failed.error_text) == (1, True)

    rotated = await hookfast("sources", "rotate-secret", source, "--overlap", "0s")
    assert (await send(f"{served.url}/in/{source}", {}))["status"] == 401
    again = await send(f"{served.url}/in/{source}", {}, secret=rotated.out.strip())
    assert again["status"] == "accepted"
    await served.context.rejections.write()
    counted = await hookfast("sources", "stats", source, "--json")
    assert (counted.json["accepted"], counted.json["rejected"]) == (2, 1)

    assert (await hookfast("sources", "delete", source, "--yes")).code == 0
    assert "no sources" in (await hookfast("sources", "list")).err


async def test_missing_provider_secret_error_names_the_option(hookfast: Run, tenant: str) -> None:
    ended = await hookfast("sources", "create", "x", "--provider", "stripe", "--tenant", tenant)
    assert ended.code == 1
    assert ended.error_text.count("creates the secret") == 1
    assert "--secret-file" in ended.error_text
