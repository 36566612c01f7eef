"""`hookfast find` leads from what one has in hand to what it belongs to."""

from __future__ import annotations

import httpx2
import pytest

from tests.integration.cli.conftest import TYPE, Run
from tests.support.api_client import Json

pytestmark = pytest.mark.anyio


async def test_ids_urls_types_and_names_are_found(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json
) -> None:
    for text in (f"endpoint_id={endpoint['id']}", "127.0.0.1:4/hook"):
        found = await hookfast("find", *text.split())
        assert found.code == 0, found.err
        assert found.out.split() == [
            "kind",
            "id",
            "what",
            "endpoint",
            endpoint["id"],
            endpoint["url"],
        ]
        assert found.err.strip().endswith(f"/dashboard/endpoints/{endpoint['id']}")
    by_name = await hookfast("find", "acme", "--json")
    assert [hit["kind"] for hit in by_name.json["data"]] == ["tenant"]
    several = await hookfast("find", TYPE.split(".")[0])
    assert TYPE in several.out
    nothing = await hookfast("find", "order", "4711")
    assert (nothing.code, nothing.out) == (1, "")
    assert "No id, key or name" in nothing.err
    secret = await hookfast("find", "hf_" + "x" * 40)
    assert secret.code == 1
    assert "looks like a secret" in secret.error_text
