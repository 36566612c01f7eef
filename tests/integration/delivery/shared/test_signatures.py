"""Signed requests, verified as a receiver does: every profile, several at once, while secrets
rotate and are resealed, and encrypted. Also the places in which no secret may appear."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from jwcrypto.jwe import JWE
from jwcrypto.jwk import JWK
from pydantic import SecretStr
from standardwebhooks import Webhook

from hookfast.clock import utc_now
from hookfast.endpoints.secrets import seal_headers
from hookfast.settings.settings import Settings
from hookfast.signing.keyring import Keyring, encode_key
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoints
from hookfast.storage.keys.rekey import rekey, survey
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.platform import (
    Platform,
    everything_stored,
    history_text,
)
from tests.support.api_client import OPERATOR_KEY
from tests.support.receiver import Receiver, Request
from tests.support.seed import EVENT_TYPE, KEY
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

NEW = b"n" * 32
HEADER_VALUE = "Basic c3RhZ2luZzpodW50ZXIy"
MARKER = "only-for-the-receiver-4711"
URL_KEY = "key-in-the-url-0815"


@pytest.fixture(scope="module")
def settings(settings: Settings) -> Settings:
    """Settings whose processes seal with the old key and can also open with the new one."""
    keys = SecretStr(f"{encode_key(KEY)},{encode_key(NEW)}")
    return settings.model_copy(update={"encryption_keys": keys})


def _hmac(secret: str, message: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def _assert_hmac_profiles(secret: str, request: Request) -> None:
    """Check that this secret verifies every profile that signs with it."""
    headers, body = request.headers, request.body
    Webhook(secret).verify(body, dict(headers), json_parse=False)
    stamp = headers["x-hook-timestamp"].encode()
    hook = f"sha256={_hmac(secret, stamp + b'.' + body)}"
    assert hook in headers["x-hook-signature"].split(",")
    message = body
    if "x-webhook-nonce" in headers:
        parts = (headers["x-webhook-timestamp"], headers["x-webhook-nonce"])
        message = ".".join(parts).encode() + b"." + body
    listed = headers["x-webhook-signature"].split(",")
    assert f"sha256={_hmac(secret, message)}" in listed


def _assert_ed25519(public: str, headers: Mapping[str, str], body: bytes) -> None:
    """Check that one of the `v1a` signatures was made with this key."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    for signature in headers["webhook-signature"].split(" "):
        version, _, value = signature.partition(",")
        if version == "v1a":
            try:
                key.verify(base64.b64decode(value), signed)
            except InvalidSignature:  # another key's, during a rotation
                continue
            return
    pytest.fail("no signature is this key's")


@pytest.mark.parametrize("last", ["nonce", "body", "rsa"])
async def test_a_request_is_verified_by_every_profile_of_its_endpoint(
    platform: Platform, last: str
) -> None:
    endpoint = await platform.endpoint(signatures=["hook", "standard", "standard-ed25519", last])
    delivery = await platform.emit({"amount": 129900})
    [request] = await platform.receiver.wait_for(1)
    headers = request.headers
    [public] = [one["public_key"] for one in endpoint["secrets"] if one["public_key"]]
    _assert_ed25519(public, headers, request.body)
    if last != "rsa":
        _assert_hmac_profiles(endpoint["secret"], request)
        assert headers["x-webhook-id"] == delivery
        assert headers.get("x-webhook-event") == (EVENT_TYPE if last == "body" else None)
        return
    [jwk] = await platform.directory()
    assert headers["x-webhook-key-id"] == jwk["kid"]
    scheme, _, signature = headers["x-webhook-signature"].partition("=")
    assert scheme == "rsa-sha256"
    signed = headers["x-webhook-timestamp"].encode() + b"." + request.body
    JWK(**jwk).get_op_key("verify").verify(
        base64.b64decode(signature), signed, PKCS1v15(), SHA256()
    )


async def test_each_attempt_has_a_new_nonce(platform: Platform) -> None:
    endpoint = await platform.endpoint("/fail-first/2", signatures=["hook", "standard", "nonce"])
    await platform.emit("again")
    requests = await platform.receiver.wait_for(3)
    assert len({request.headers["x-webhook-nonce"] for request in requests}) == 3
    assert [request.headers["x-webhook-attempt"] for request in requests] == ["1", "2", "3"]
    assert len({request.headers["x-webhook-id"] for request in requests}) == 1
    for request in requests:
        _assert_hmac_profiles(endpoint["secret"], request)


@pytest.mark.parametrize("last", ["nonce", pytest.param("body", marks=pytest.mark.slow)])
async def test_old_and_new_secrets_verify_during_rotation_and_resealing(
    platform: Platform, database: Database, last: str
) -> None:
    signatures = ["hook", "standard", "standard-ed25519", last]
    endpoint = await platform.endpoint(signatures=signatures, headers={"X-Env": HEADER_VALUE})
    secrets = [endpoint["secret"]]
    publics = [one["public_key"] for one in endpoint["secrets"] if one["public_key"]]
    both = Keyring([NEW, KEY])
    stop = asyncio.Event()

    async def traffic() -> int:
        sent = 0
        while not stop.is_set():
            await platform.emit(sent)
            sent += 1
            await asyncio.sleep(0.05)
        return sent

    async def sealing() -> None:
        while not stop.is_set():
            await rekey(database, both)
            await asyncio.sleep(0.01)

    tasks = (asyncio.create_task(traffic()), asyncio.create_task(sealing()))
    known_from = [0]
    for _ in range(4):
        await platform.receiver.wait_for(len(platform.receiver.requests) + 5)
        answer = await platform.client.post(f"/endpoints/{endpoint['id']}/rotate-secret")
        assert answer.status_code == 200, answer.text
        secrets.append(answer.json()["secret"])
        publics.append(answer.json()["secrets"][1]["public_key"])
        # an attempt loaded before the rotation may be in flight; a delivery emitted now is not
        after = await platform.emit("after the rotation")
        await eventually(partial(_received, platform.receiver, after))
        known_from.append(
            next(
                index
                for index, request in enumerate(platform.receiver.requests)
                if request.message_id == after
            )
        )
    await platform.receiver.wait_for(len(platform.receiver.requests) + 5)
    stop.set()
    sent, _ = await asyncio.gather(*tasks)
    await platform.receiver.wait_for(sent + 4)
    requests = platform.receiver.requests
    for request in requests:  # every overlap is a day, so the first secret verifies everything
        _assert_hmac_profiles(secrets[0], request)
        _assert_ed25519(publics[0], request.headers, request.body)
        assert request.headers["x-env"] == HEADER_VALUE
    for secret, public, first in zip(secrets, publics, known_from, strict=True):
        _assert_hmac_profiles(secret, requests[first])
        _assert_ed25519(public, requests[first].headers, requests[first].body)
    _assert_hmac_profiles(secrets[-1], requests[-1])
    await rekey(database, both)
    assert (await survey(database, Keyring([NEW]))).older == 0


async def _received(receiver: Receiver, message_id: str) -> bool:
    return bool(receiver.requests_for(message_id))


@pytest.mark.parametrize(
    ("kind", "alg"),
    [
        ({"kty": "RSA", "size": 2048}, "RSA-OAEP-256"),
        ({"kty": "OKP", "crv": "X25519"}, "ECDH-ES+A256KW"),
    ],
    ids=["RSA", "X25519"],
)
async def test_encrypted_body_is_signed_as_sent_and_decrypted_by_its_receiver(
    platform: Platform, kind: dict[str, Any], alg: str
) -> None:
    key = JWK.generate(**kind)
    encryption = {"jwk": json.loads(key.export_public()), "alg": alg}
    endpoint = await platform.endpoint(
        signatures=["hook", "standard", "nonce"], encryption=encryption
    )
    await platform.emit({"card": MARKER})
    [request] = await platform.receiver.wait_for(1)
    assert request.headers["content-type"] == "application/jose"
    assert MARKER.encode() not in request.body
    _assert_hmac_profiles(endpoint["secret"], request)
    token = JWE()
    token.deserialize(request.body.decode(), key)
    event = json.loads(token.payload)
    assert (event["type"], event["data"]) == (EVENT_TYPE, {"card": MARKER})


async def test_no_secret_is_readable_in_answers_histories_logs_or_the_database(
    platform: Platform, stack: Stack, capfd: pytest.CaptureFixture[str]
) -> None:
    endpoint = await platform.endpoint(
        f"/fail-first/2?key={URL_KEY}",
        signatures=["hook", "standard", "standard-ed25519", "rsa"],
        headers={"Authorization": HEADER_VALUE},
    )
    path = f"/endpoints/{endpoint['id']}"
    rotated = (await platform.client.post(f"{path}/rotate-secret")).json()
    delivery = await platform.emit({"card": MARKER})
    await stack.until_status(delivery, "delivered")
    await stack.until_closed(delivery)
    requests = platform.receiver.requests_for(delivery)
    assert requests[-1].headers["authorization"] == HEADER_VALUE

    secrets = [endpoint["secret"], rotated["secret"]]
    needles = [HEADER_VALUE, HEADER_VALUE.split()[1], "whsk_", "PRIVATE KEY", OPERATOR_KEY]
    for secret in secrets:
        raw = base64.b64decode(secret.removeprefix("whsec_"))
        needles += [secret.removeprefix("whsec_"), raw.hex(), raw.hex().upper()]
    for request in requests:
        needles += [
            part
            for name in ("x-hook-signature", "webhook-signature", "x-webhook-signature")
            for part in re.findall(r"[0-9A-Za-z+/]{40,}", request.headers[name])
        ]

    answers = ""
    for route in (
        *(path, "/endpoints", f"{path}/health", "/events", "/deliveries"),
        *(f"/deliveries/{delivery}", "/subscriptions", "/jobs", "/tenants", "/event-types"),
    ):
        answer = await platform.client.get(route)
        assert answer.status_code == 200, route
        answers += answer.text
    assert not [needle for needle in needles if needle in answers]
    assert "whsec_" not in answers

    stored = await everything_stored(stack.database)
    assert endpoint["id"] in stored  # proof that the rows were read
    assert not [needle for needle in needles if needle in stored]

    texts = await history_text(stack, delivery)
    assert '"delivery_id"' in texts  # payloads are decoded, not base64
    assert not [needle for needle in [*needles, MARKER, URL_KEY] if needle in texts]

    logged = ""

    async def is_logged() -> bool:
        nonlocal logged
        logged += "".join(capfd.readouterr())
        return broken in logged

    async with _unreadable_endpoint(platform, stack.database) as broken:
        await platform.emit({"card": MARKER})
        await eventually(is_logged)
    assert not [needle for needle in [*needles, MARKER, URL_KEY] if needle in logged]


@asynccontextmanager
async def _unreadable_endpoint(platform: Platform, database: Database) -> AsyncIterator[str]:
    """Create an endpoint whose header is sealed with an unknown key while the block lasts, and
    yield its id. The worker logs an error about it."""
    endpoint_id = str((await platform.endpoint(headers={"Authorization": HEADER_VALUE}))["id"])
    stranger = Keyring([b"s" * 32])
    headers = seal_headers({"Authorization": HEADER_VALUE}, stranger, endpoint_id=endpoint_id)
    await _set_headers(database, endpoint_id, headers)
    try:
        yield endpoint_id
    finally:  # another test opens the secrets of all endpoints
        await _set_headers(database, endpoint_id, {})


async def _set_headers(database: Database, endpoint_id: str, headers: Any) -> None:
    async with database.write() as connection:
        row = await endpoints.get(connection, endpoint_id)
        assert row is not None
        values = {"headers": headers, "updated_at": utc_now()}
        assert await endpoints.change(connection, endpoint_id, seen=row.updated_at, values=values)
