"""`hookfast endpoints`: the authentication and the TLS identity of an endpoint."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
import trustme

from tests.integration.cli.conftest import Run
from tests.support.api_client import Json
from tests.support.certificates import client_identity, pem

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()


async def test_an_authentication_is_read_from_a_file_shown_replaced_and_removed(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("passw0rd\n")
    command = ("endpoints", "set-authentication", endpoint["id"])
    basic = await hookfast(*command, "basic", "--username", "shop", "--secret-file", str(file))
    assert basic.code == 0, basic.err
    assert "basic, user name shop, since " in basic.out
    oauth2 = await hookfast(
        *(*command, "oauth2", "--token-url", "https://127.0.0.1:4/token", "--client-id", "shop"),
        *("--scope", "a b", "--client-authentication", "body", "--overlap", "1h"),
        *("--secret-file", "-"),
        stdin="cl1ent-secret\n",
    )
    assert oauth2.code == 0, oauth2.err
    assert "The replaced one is still tried until " in oauth2.err
    shown = await hookfast("endpoints", "show", endpoint["id"])
    assert "oauth2, client shop at https://127.0.0.1:4/token, since " in shown.out
    stored = (await client.get(f"/endpoints/{endpoint['id']}")).json()["authentication"]
    assert (stored["scope"], stored["client_authentication"]) == ("a b", "body")
    for result in (basic, oauth2, shown):
        assert "passw0rd" not in result.out + result.err
        assert "cl1ent-secret" not in result.out + result.err

    kept = await hookfast("endpoints", "remove-authentication", endpoint["id"], stdin="n\n")
    assert kept.code == 1
    removed = await hookfast("endpoints", "remove-authentication", endpoint["id"], "--yes")
    assert removed.code == 0, removed.err
    assert (await client.get(f"/endpoints/{endpoint['id']}")).json()["authentication"] is None
    again = await hookfast("endpoints", "remove-authentication", endpoint["id"], "--yes")
    assert (again.code, "has no authentication" in again.err) == (1, True)


async def test_a_tls_identity_is_read_from_files_shown_and_removed(
    hookfast: Run, client: httpx2.AsyncClient, endpoint: Json, tmp_path: Path
) -> None:
    await client.patch(f"/endpoints/{endpoint['id']}", json={"url": "https://127.0.0.1:4/"})
    identity = client_identity(AUTHORITY)
    for name, text in {**identity, "authorities": pem(AUTHORITY)}.items():
        (tmp_path / name).write_text(text)
    changed = await hookfast(
        *("endpoints", "set-tls", endpoint["id"], "--authorities", str(tmp_path / "authorities")),
        *("--certificate", str(tmp_path / "certificate")),
        *("--private-key", str(tmp_path / "private_key")),
    )
    assert changed.code == 0, changed.err
    assert "PRIVATE KEY" not in changed.out
    shown = await hookfast("endpoints", "show", endpoint["id"])
    assert "trusts " in shown.out
    missing = await hookfast("endpoints", "set-tls", endpoint["id"], "--private-key", "nowhere")
    assert missing.code == 2
    assert "--private-key" in missing.err
    removed = await hookfast("endpoints", "remove-tls", endpoint["id"], "--yes")
    assert removed.code == 0, removed.err
    assert (await client.get(f"/endpoints/{endpoint['id']}")).json()["tls"] is None


async def test_a_rejected_authentication_names_its_member(hookfast: Run, endpoint: Json) -> None:
    command = ("endpoints", "set-authentication", endpoint["id"])
    for kind, words in (("basic", "username"), ("oauth2", "client_id"), ("digest", "KIND")):
        failed = await hookfast(*command, kind, "--secret-file", "-", stdin="x")
        assert failed.code != 0
        assert words in failed.err
