"""The guide's test vectors match what Hookfast sends, and independent implementations."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import runpy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from jwcrypto.jwk import JWK
from standardwebhooks import Webhook

_DOCS = Path(__file__).parents[3] / "docs"
_SCRIPT = runpy.run_path(str(_DOCS / "signature_vectors.py"))
_COMMITTED = (_DOCS / "signature-vectors.json").read_text()
_DOCUMENT: dict[str, Any] = json.loads(_COMMITTED)
_REQUEST = _DOCUMENT["request"]
_BODY = _REQUEST["body"].encode()
_TIME = str(_REQUEST["timestamp"]).encode()
_STANDARD = b".".join((_REQUEST["message_id"].encode(), _TIME, _BODY))


def _of(profile: str) -> list[Any]:
    found = [one for one in _DOCUMENT["vectors"] if profile in one["profiles"]]
    return [pytest.param(one, id=one["name"]) for one in found]


def _expected(vector: dict[str, Any], message: bytes, hash_name: str = "sha256") -> list[str]:
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in vector["secrets"]]
    return [hmac.new(key, message, getattr(hashlib, hash_name)).hexdigest() for key in keys]


def test_the_committed_vectors_match_the_script() -> None:
    assert _SCRIPT["rendered"]() == _COMMITTED, "run docs/signature_vectors.py"
    text = (_DOCS / "signatures.md").read_text()
    assert _SCRIPT["guide"](text) == text, "run docs/signature_vectors.py"


def test_every_profile_and_every_signature_list_has_a_vector() -> None:
    profiles = {profile for one in _DOCUMENT["vectors"] for profile in one["profiles"]}
    assert profiles == {"hook", "standard", "standard-ed25519", "nonce", "body", "rsa"}
    rotating = {one["profiles"][0] for one in _DOCUMENT["vectors"] if len(one["secrets"]) > 1}
    assert rotating == {"hook", "standard", "nonce", "body"}


@pytest.mark.parametrize("vector", _of("hook"))
def test_hook(vector: dict[str, Any]) -> None:
    signatures = vector["headers"]["X-Hook-Signature"].split(",")
    hash_name = signatures[0].partition("=")[0]
    message = _TIME + b"." + _BODY
    expected = [f"{hash_name}={one}" for one in _expected(vector, message, hash_name)]
    assert signatures == expected
    assert vector["headers"]["X-Hook-Timestamp"] == _TIME.decode()


@pytest.mark.parametrize("vector", _of("standard"))
def test_standard(vector: dict[str, Any]) -> None:
    at = datetime.fromtimestamp(_REQUEST["timestamp"], UTC)
    expected = [
        Webhook(secret).sign(_REQUEST["message_id"], at, _REQUEST["body"])
        for secret in vector["secrets"]
    ]
    signatures = vector["headers"]["webhook-signature"].split(" ")
    assert [one for one in signatures if one.startswith("v1,")] == expected
    assert vector["headers"]["webhook-id"] == _REQUEST["message_id"]


@pytest.mark.parametrize("vector", _of("standard-ed25519"))
def test_standard_ed25519(vector: dict[str, Any]) -> None:
    public = _DOCUMENT["keys"]["ed25519"]["public"].removeprefix("whpk_")
    [signature] = [
        one.removeprefix("v1a,")
        for one in vector["headers"]["webhook-signature"].split(" ")
        if one.startswith("v1a,")
    ]
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public))
    key.verify(base64.b64decode(signature), _STANDARD)


@pytest.mark.parametrize("vector", _of("nonce"))
def test_nonce(vector: dict[str, Any]) -> None:
    headers = vector["headers"]
    assert headers["X-Webhook-Nonce"] == _REQUEST["nonce"]
    message = b".".join((_TIME, _REQUEST["nonce"].encode(), _BODY))
    expected = [f"sha256={one}" for one in _expected(vector, message)]
    assert headers["X-Webhook-Signature"].split(",") == expected


@pytest.mark.parametrize("vector", _of("body"))
def test_body(vector: dict[str, Any]) -> None:
    expected = [f"sha256={one}" for one in _expected(vector, _BODY)]
    assert vector["headers"]["X-Webhook-Signature"].split(",") == expected
    assert vector["headers"]["X-Webhook-Event"] == _REQUEST["event_type"]


@pytest.mark.parametrize("vector", _of("rsa"))
def test_rsa(vector: dict[str, Any]) -> None:
    public = JWK(**_DOCUMENT["keys"]["rsa"]["public"])
    assert vector["headers"]["X-Webhook-Key-Id"] == public.thumbprint()
    signature = vector["headers"]["X-Webhook-Signature"].removeprefix("rsa-sha256=")
    public.get_op_key("verify").verify(
        base64.b64decode(signature), _TIME + b"." + _BODY, PKCS1v15(), SHA256()
    )


def test_the_guides_links_into_the_repository_exist() -> None:
    text = (_DOCS / "signatures.md").read_text()
    for target in ("verify.md", "signature-vectors.json"):
        assert f"]({target})" in text
        assert (_DOCS / target).exists()
