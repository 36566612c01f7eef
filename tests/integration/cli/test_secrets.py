"""`hookfast secrets` and `hookfast endpoints rotate-secret`."""

from __future__ import annotations

import httpx2
import pytest

from hookfast.settings.settings import Settings
from tests.integration.cli.conftest import NEW, ON_BOTH_DATABASES, Run
from tests.support.api_client import Json

pytestmark = [pytest.mark.anyio, pytest.mark.heavy, ON_BOTH_DATABASES]


async def test_a_secret_is_rotated_and_shown_once(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json
) -> None:
    rotated = await hookfast("endpoints", "rotate-secret", endpoint["id"], "--overlap", "2h")
    assert rotated.code == 0, rotated.err
    [secret] = rotated.out.split()
    assert secret.startswith("whsec_")
    assert secret != endpoint["secret"]
    assert "also signs until" in rotated.error_text
    shown = (await client.get(f"/endpoints/{endpoint['id']}")).json()
    assert [one["expires_at"] is None for one in shown["secrets"]] == [True, False]
    as_json = await hookfast(
        "endpoints", "rotate-secret", endpoint["id"], "--overlap", "0s", "--json"
    )
    assert len(as_json.json["secrets"]) == 1


@pytest.mark.parametrize("overlap", ["", "soon", "8d", "-1h", "1.5h"])
async def test_invalid_overlap_is_rejected(hookfast: Run, endpoint: Json, overlap: str) -> None:
    failed = await hookfast("endpoints", "rotate-secret", endpoint["id"], f"--overlap={overlap}")
    assert failed.code != 0
    assert failed.out == ""


async def test_rekey_seals_everything_with_the_newest_key(
    hookfast: Run, settings: Settings, service: dict[str, str], endpoint: Json
) -> None:
    old = (settings.home / "encryption.key").read_text().strip()
    both, alone = (service | {"HOOKFAST_ENCRYPTION_KEYS": keys} for keys in (f"{NEW},{old}", NEW))
    failed = await hookfast("secrets", "rekey", env=alone)
    assert failed.code == 1
    assert f"opens {endpoint['id']}; nothing was changed" in failed.error_text
    looked = await hookfast("secrets", "rekey", "--dry-run", env=both)
    assert looked.out == "1 value: 0 under the newest key, 1 under older ones.\n"
    done = await hookfast("secrets", "rekey", env=both)
    assert (done.code, done.err) == (0, "1 value sealed again.\n")
    assert done.out == "1 value: 1 under the newest key, 0 under older ones.\n"
    again = await hookfast("secrets", "rekey", env=alone)
    assert (again.code, again.err) == (0, "0 values sealed again.\n")


async def test_a_signing_key_is_rotated(
    hookfast: Run, client: httpx2.AsyncClient, service: dict[str, str], endpoint: Json
) -> None:
    first = await hookfast("secrets", "rotate-signing-key", "--at-once", env=service)
    assert first.code == 0, first.err
    second = await hookfast("secrets", "rotate-signing-key", "--overlap", "2d", env=service)
    kids = [one.out.split()[0] for one in (second, first)]
    assert f"{kids[1]} stays in the directory until" in second.error_text
    directory = await client.get(str(client.base_url.join("/.well-known/hookfast-keys.json")))
    assert [key["kid"] for key in directory.json()["keys"]] == kids


async def test_database_without_schema_is_rejected_with_what_to_run(
    hookfast: Run, settings: Settings, service: dict[str, str]
) -> None:
    empty = service | {"HOOKFAST_DATABASE_URL": f"sqlite:///{settings.home / 'empty.db'}"}
    for command in ("rekey", "rotate-signing-key"):
        failed = await hookfast("secrets", command, env=empty)
        assert failed.code == 1
        assert "hookfast migrate" in failed.error_text
