"""Rotation of endpoint secrets, and the key directory that receivers read."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from jwcrypto.jwk import JWK
from sqlalchemy import select

from api.context.context import Context
from hookfast.clock import utc_now
from hookfast.endpoints.secrets import open_secrets
from hookfast.signing.signature import secret_key
from hookfast.storage.endpoints import endpoints
from hookfast.storage.tables import SigningKey
from tests.support.api_client import Json, KeyClient, Make, assert_problem

pytestmark = pytest.mark.anyio

DIRECTORY = "http://hookfast.test/.well-known/hookfast-keys.json"


@pytest.fixture
async def tenant_id(make_tenant: Make) -> str:
    return str((await make_tenant())["id"])


async def _live_keys(context: Context, endpoint_id: str) -> list[bytes]:
    async with context.database.read() as connection:
        row = await endpoints.get(connection, endpoint_id)
    assert row is not None
    opened = open_secrets(row.secrets, context.keyring, endpoint_id=row.id, now=context.clock())
    return list(opened.hmac)


async def _directory(app: FastAPI, **params: Any) -> list[Json]:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as anyone:
        answer = await anyone.get(DIRECTORY, params=params)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/jwk-set+json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    for key in answer.json()["keys"]:
        assert not JWK(**key).has_private
    keys: list[Json] = answer.json()["keys"]
    return keys


async def test_a_rotation_shows_the_new_secret_once_and_keeps_the_old_one_for_a_day(
    client: httpx2.AsyncClient, context: Context, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id)
    path = f"/endpoints/{endpoint['id']}"
    answer = await client.post(f"{path}/rotate-secret")
    assert answer.status_code == 200, answer.text
    rotated = answer.json()
    new, old = rotated["secret"], endpoint["secret"]
    assert new != old
    assert await _live_keys(context, endpoint["id"]) == [secret_key(new), secret_key(old)]
    first, second = rotated["secrets"]
    assert first["expires_at"] is None
    assert first["created_at"] == rotated["updated_at"]
    assert second["created_at"] == endpoint["created_at"]
    until = datetime.fromisoformat(second["expires_at"])
    assert until - datetime.fromisoformat(rotated["updated_at"]) == timedelta(days=1)
    for text in (
        (await client.get(path)).text,
        (await client.get("/endpoints")).text,
        (await client.patch(path, json={"description": "x"})).text,
    ):
        assert "whsec_" not in text
        assert new not in text


async def test_overlap_can_be_chosen(
    client: httpx2.AsyncClient, context: Context, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id)
    path = f"/endpoints/{endpoint['id']}/rotate-secret"
    leaked = (await client.post(path, json={"overlap_seconds": 0})).json()
    assert len(leaked["secrets"]) == 1
    assert await _live_keys(context, endpoint["id"]) == [secret_key(leaked["secret"])]
    week = (await client.post(path, json={"overlap_seconds": 604_800})).json()
    assert await _live_keys(context, endpoint["id"]) == [
        secret_key(week["secret"]),
        secret_key(leaked["secret"]),
    ]


@pytest.mark.parametrize("value", [-1, 604_801, 1.5, "60", True])
async def test_an_overlap_is_whole_seconds_of_at_most_a_week(
    client: httpx2.AsyncClient, make_endpoint: Make, tenant_id: str, value: object
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id)
    path = f"/endpoints/{endpoint['id']}/rotate-secret"
    answer = await client.post(path, json={"overlap_seconds": value})
    assert_problem(answer, 422, code="invalid_input", pointer="/overlap_seconds")


async def test_sixth_live_secret_is_rejected_until_others_end(
    client: httpx2.AsyncClient, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id)
    path = f"/endpoints/{endpoint['id']}/rotate-secret"
    codes = [(await client.post(path)).status_code for _ in range(5)]
    assert codes == [200, 200, 200, 200, 409]
    assert_problem(await client.post(path), 409, code="too_many_secrets")
    assert (await client.post(path, json={"overlap_seconds": 0})).status_code == 200


async def test_rotations_and_changes_at_the_same_time_lose_nothing(
    client: httpx2.AsyncClient, context: Context, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id, headers={"Authorization": "Bearer a"})
    path = f"/endpoints/{endpoint['id']}"
    answers = await asyncio.gather(
        *(client.post(f"{path}/rotate-secret") for _ in range(4)),
        *(client.patch(path, json={"headers": {"X-N": str(n)}}) for n in range(4)),
    )
    rotations, patches = answers[:4], answers[4:]
    assert [one.status_code for one in rotations] == [200] * 4
    assert {one.status_code for one in patches} <= {200, 409}
    shown = {secret_key(one.json()["secret"]) for one in rotations} | {
        secret_key(endpoint["secret"])
    }
    assert set(await _live_keys(context, endpoint["id"])) == shown


async def test_an_endpoint_gets_its_ed25519_key_with_the_profile_and_a_new_one_by_rotation(
    client: httpx2.AsyncClient, app: FastAPI, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id)
    other = await make_endpoint(tenant_id=tenant_id, signatures=["standard-ed25519"])
    path = f"/endpoints/{endpoint['id']}"
    asked = await client.patch(path, json={"signatures": ["standard", "standard-ed25519"]})
    assert [one["kind"] for one in asked.json()["secrets"]] == ["ed25519", "hmac"]
    again = await client.patch(path, json={"description": "x"})
    assert again.json()["secrets"] == asked.json()["secrets"]
    rotated = (await client.post(f"{path}/rotate-secret")).json()
    publics = [one["public_key"] for one in rotated["secrets"] if one["kind"] == "ed25519"]
    assert len(set(publics)) == 2
    assert publics[1] == asked.json()["secrets"][0]["public_key"]
    assert all(public.startswith("whpk_") for public in publics)
    directory = await _directory(app, endpoint_id=endpoint["id"])
    assert [key["crv"] for key in directory] == ["Ed25519", "Ed25519"]
    theirs = await _directory(app, endpoint_id=other["id"])
    assert not {key["kid"] for key in directory} & {key["kid"] for key in theirs}
    assert await _directory(app) == []


async def test_first_endpoint_with_rsa_creates_the_key_of_the_directory(
    client: httpx2.AsyncClient, app: FastAPI, context: Context, make_endpoint: Make, tenant_id: str
) -> None:
    assert await _directory(app) == []
    first, second = await asyncio.gather(
        make_endpoint(tenant_id=tenant_id, signatures=["rsa"]),
        make_endpoint(tenant_id=tenant_id, signatures=["hook", "rsa"]),
    )
    [key] = await _directory(app)
    assert (key["kty"], key["use"], key["alg"]) == ("RSA", "sig", "RS256")
    async with context.database.read() as connection:
        [row] = (await connection.execute(select(SigningKey.__table__))).all()
    assert row.kid == key["kid"] == JWK(**key).thumbprint()
    assert "PRIVATE" not in row.sealed
    for path in ("/endpoints", f"/endpoints/{first['id']}", f"/endpoints/{second['id']}"):
        assert row.sealed not in (await client.get(path)).text


@pytest.mark.parametrize("endpoint_id", ["", "x", "ep_" + "0" * 32, "ep_\x00", "ü"])
async def test_key_directory_is_empty_for_unknown_endpoints(app: FastAPI, endpoint_id: str) -> None:
    assert await _directory(app, endpoint_id=endpoint_id) == []


async def test_change_to_conflicting_profiles_is_rejected(
    client: httpx2.AsyncClient, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id, signatures=["nonce"])
    answer = await client.patch(
        f"/endpoints/{endpoint['id']}", json={"signatures": ["nonce", "rsa"]}
    )
    problem = assert_problem(answer, 422, code="invalid_signatures", pointer="/signatures/1")
    assert "nonce and rsa" in problem["detail"]


async def test_encryption_is_set_shown_and_removed(
    client: httpx2.AsyncClient, make_endpoint: Make, tenant_id: str
) -> None:
    jwk = json.loads(JWK.generate(kty="OKP", crv="X25519", kid="mine").export_public())
    endpoint = await make_endpoint(
        tenant_id=tenant_id, encryption={"jwk": jwk, "alg": "ECDH-ES+A256KW"}
    )
    shown = {"jwk": jwk, "alg": "ECDH-ES+A256KW", "enc": "A256GCM"}
    assert endpoint["encryption"] == shown
    path = f"/endpoints/{endpoint['id']}"
    kept = await client.patch(path, json={"description": "x"})
    assert kept.json()["encryption"] == shown
    removed = await client.patch(path, json={"encryption": None})
    assert removed.json()["encryption"] is None


async def test_private_encryption_key_is_rejected(
    client: httpx2.AsyncClient, tenant_id: str
) -> None:
    private = json.loads(JWK.generate(kty="EC", crv="P-256").export_private())
    answer = await client.post(
        "/endpoints",
        json={
            "url": "http://127.0.0.1:4/",
            "tenant_id": tenant_id,
            "verification": "none",
            "encryption": {"jwk": private, "alg": "ECDH-ES+A256KW"},
        },
    )
    assert_problem(answer, 422, code="invalid_encryption", pointer="/encryption/jwk/d")
    assert private["d"] not in answer.text


async def test_tenant_cannot_rotate_another_tenants_secret(
    context: Context,
    make_tenant: Make,
    make_endpoint: Make,
    key_client: KeyClient,
    tenant_id: str,
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id)
    async with key_client((await make_tenant())["id"]) as theirs:
        answer = await theirs.post(f"/endpoints/{endpoint['id']}/rotate-secret")
    assert_problem(answer, 404, code="not_found")
    assert await _live_keys(context, endpoint["id"]) == [secret_key(endpoint["secret"])]


async def test_change_of_other_members_needs_no_key_to_decrypt_headers(
    client: httpx2.AsyncClient, context: Context, make_endpoint: Make, tenant_id: str
) -> None:
    endpoint = await make_endpoint(tenant_id=tenant_id, headers={"Authorization": "Bearer a"})
    async with context.database.write() as connection:
        row = await endpoints.get(connection, endpoint["id"])
        assert row is not None
        damaged = {"Authorization": {"sealed": "A" * 80}}
        await endpoints.change(
            connection,
            row.id,
            seen=row.updated_at,
            values={"headers": damaged, "updated_at": utc_now()},
        )
    path = f"/endpoints/{endpoint['id']}"
    answer = await client.patch(path, json={"description": "still possible"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["headers"] == {"Authorization": "***"}
