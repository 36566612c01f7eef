"""Sign requests of every profile without Hookfast's code, with hmac, hashlib and `cryptography`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from hookfast.receiver import KeySet

KEY = b"k" * 32
OLD_KEY = b"o" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()
OLD_SECRET = "whsec_" + base64.b64encode(OLD_KEY).decode()
ID = "dlv_0192f0c1a5b27d3e8f4a5b6c7d8e9f00"
TIME = 1_700_000_000
NOW = datetime.fromtimestamp(TIME, UTC)
BODY = b'{"id":"evt_1","type":"order.invoice.paid","data":{"amount":7}}'
NONCE = "bm9uY2Utbm9uY2Utbm9uY2U"
KEY_ID = "2026-11"
ED25519 = Ed25519PrivateKey.from_private_bytes(b"e" * 32)

ALL = ("rsa", "standard-ed25519", "standard", "nonce", "hook", "body")
BY_SECRET = ("standard", "nonce", "hook", "body")


@cache
def rsa_key() -> RSAPrivateKey:
    """Return an RSA key, generated once because it is slow."""
    return generate_private_key(public_exponent=65537, key_size=2048)


@cache
def key_set() -> KeySet:
    return KeySet.from_jwks(jwks())


def jwks(**changes: object) -> bytes:
    """Return a key directory with both keys, with `changes` to the RSA key."""
    numbers = rsa_key().public_key().public_numbers()
    rsa = {
        "kty": "RSA",
        "kid": KEY_ID,
        "use": "sig",
        "alg": "RS256",
        "n": _base64url(numbers.n.to_bytes(256, "big")),
        "e": _base64url(numbers.e.to_bytes(3, "big")),
    }
    ed25519 = {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": "ed",
        "use": "sig",
        "alg": "EdDSA",
        "x": _base64url(ED25519.public_key().public_bytes_raw()),
    }
    return json.dumps({"keys": [rsa | changes, ed25519]}).encode()


def signed(
    profile: str,
    *,
    body: bytes = BODY,
    keys: Sequence[bytes] = (KEY,),
    timestamp: int = TIME,
    hash_name: str = "sha256",
    message_id: str = ID,
) -> dict[str, str]:
    """Return the headers of a delivery signed with `profile`."""
    time = str(timestamp)
    common = {
        "Content-Type": "application/json",
        "X-Hook-Id": message_id,
        "X-Hook-Topic": "order.invoice.paid",
        "X-Hook-Attempt": "3",
    }
    if profile == "hook":
        message = time.encode() + b"." + body
        listed = [f"{hash_name}={hmac.new(key, message, hash_name).hexdigest()}" for key in keys]
        return common | {"X-Hook-Signature": ",".join(listed), "X-Hook-Timestamp": time}
    if profile in ("standard", "standard-ed25519"):
        message = f"{message_id}.{time}.".encode() + body
        if profile == "standard-ed25519":
            listed = ["v1a," + base64.b64encode(ED25519.sign(message)).decode()]
        else:
            listed = [
                "v1," + base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode()
                for key in keys
            ]
        return common | {
            "webhook-id": message_id,
            "webhook-timestamp": time,
            "webhook-signature": " ".join(listed),
        }
    if profile == "rsa":
        raw = rsa_key().sign(time.encode() + b"." + body, PKCS1v15(), SHA256())
        return common | {
            "X-Webhook-Signature": "rsa-sha256=" + base64.b64encode(raw).decode(),
            "X-Webhook-Key-Id": KEY_ID,
            "X-Webhook-Timestamp": time,
        }
    message = f"{time}.{NONCE}.".encode() + body if profile == "nonce" else body
    listed = [f"sha256={hmac.new(key, message, hashlib.sha256).hexdigest()}" for key in keys]
    common |= {"X-Webhook-Signature": ",".join(listed), "X-Webhook-ID": message_id}
    if profile == "nonce":
        common |= {
            "X-Webhook-Timestamp": time,
            "X-Webhook-Nonce": NONCE,
            "X-Webhook-Attempt": "3",
        }
    else:
        common |= {"X-Webhook-Event": "order.invoice.paid"}
    return common


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
