"""`hookfast audit`, and the entries of commands that work on the database."""

from __future__ import annotations

import httpx2
import pytest

from hookfast.settings.settings import Settings
from tests.integration.cli.conftest import NEW, ON_BOTH_DATABASES, Run
from tests.support.api_client import Json

pytestmark = [pytest.mark.anyio, ON_BOTH_DATABASES]


async def test_changes_are_listed_with_who_made_them(hookfast: Run, endpoint: Json) -> None:
    await hookfast("endpoints", "pause", endpoint["id"])
    listed = await hookfast("audit", "list", "--resource", endpoint["id"])
    assert listed.code == 0, listed.err
    headings, paused, created = listed.out.splitlines()
    assert headings.split() == ["at", "by", "from", "action", "resource", "changes"]
    assert "127.0.0.1  endpoint.pause" in paused
    assert "state: enabled → paused, state_reason: null → Paused by request." in paused
    assert f"endpoint.create  {endpoint['id']}  url: {endpoint['url']}, " in created


async def test_audit_filters_are_sent_and_json_is_the_apis(hookfast: Run, endpoint: Json) -> None:
    found = await hookfast(
        *("audit", "list", "--action", "endpoint.create", "--tenant", endpoint["tenant_id"]),
        *("--since", "1h", "--json"),
    )
    [entry] = found.json["data"]
    assert entry["resource_id"] == endpoint["id"]
    assert found.json["next_cursor"] is None
    by_key = ("audit", "list", "--key", entry["key_id"], "--limit", "1")
    assert "There are more; --limit shows them." in (await hookfast(*by_key)).err
    none = await hookfast("audit", "list", "--until", "1h")
    assert (none.code, none.out, none.err) == (0, "", "No change matches.\n")
    failed = await hookfast("audit", "list", "--action", "eat")
    assert (failed.code, failed.out) == (1, "")


async def test_removed_and_long_values_stay_on_one_line(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json
) -> None:
    path = f"/endpoints/{endpoint['id']}"
    await client.patch(path, json={"headers": {"X-Old": "1"}, "description": "a\x1b[31m" * 50})
    await client.patch(path, json={"headers": {"X-Old": None}})
    listed = await hookfast("audit", "list", "--action", "endpoint.update")
    _, gone, long = listed.out.splitlines()
    assert gone.rstrip().endswith("–headers.X-Old")
    assert "…" in long
    assert "\x1b" not in long


async def test_rekey_and_key_rotation_are_each_logged_once(
    hookfast: Run, settings: Settings, service: dict[str, str], endpoint: Json
) -> None:
    old = (settings.home / "encryption.key").read_text().strip()
    keys = service | {"HOOKFAST_ENCRYPTION_KEYS": f"{NEW},{old}"}
    for arguments in (("rekey", "--dry-run"), ("rekey",), ("rekey",), ("rotate-signing-key",)):
        assert (await hookfast("secrets", *arguments, env=keys)).code == 0
    listed = await hookfast("audit", "list", "--limit", "2", "--json")
    rotated, rekeyed = listed.json["data"]
    assert (rotated["action"], rotated["actor"]) == ("signing_key.rotate", "cli")
    assert sorted(rotated["changes"]) == ["retired_at", "signs_from"]
    assert (rekeyed["action"], rekeyed["actor"]) == ("secrets.rekey", "cli")
    assert rekeyed["changes"] == {"values": {"after": 1}}
