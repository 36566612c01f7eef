"""Asymmetric signing keys: ed25519 keys of endpoints and RSA keys of the service. Pure.

An ed25519 key has the text format of Standard Webhooks, `whsk_` and `whpk_`; an RSA key is PEM.
Public keys are shown as JWKs (RFC 7517), whose id is their thumbprint (RFC 7638).
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

from hookfast.errors import Misconfigured

PRIVATE_PREFIX = "whsk_"
PUBLIC_PREFIX = "whpk_"
RSA_BITS = 3072
"""128 bits of security (NIST SP 800-57 part 1, table 2), for keys that are used for years."""

_ED25519_BYTES = 32

Jwk = dict[str, str]
"""A public key as JWK: `kty`, its parameters, `kid`, `use` and `alg`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RsaSigner:
    """An RSA key that signs, and the id by which receivers find it."""

    kid: str
    key: rsa.RSAPrivateKey

    def sign(self, message: bytes) -> bytes:
        """Sign with RSASSA-PKCS1-v1_5 and SHA-256 (RFC 8017, section 8.2; `RS256` of RFC 7518).
        Takes about 0.8 ms with 3072 bits, and lets other threads run."""
        return self.key.sign(message, PKCS1v15(), hashes.SHA256())


def generate_ed25519() -> str:
    """Return a new private key: `whsk_` and the base64 of seed and public key, 64 bytes."""
    key = Ed25519PrivateKey.generate()
    return PRIVATE_PREFIX + _base64(key.private_bytes_raw() + key.public_key().public_bytes_raw())


def ed25519_key(text: str) -> Ed25519PrivateKey:
    """Parse a stored `whsk_…` (RFC 8032, section 5.1.5: its first 32 bytes are the seed). Raises
    Misconfigured, which contains nothing of the key, when it is damaged."""
    raw = _decoded(text, PRIVATE_PREFIX)
    if raw is None or len(raw) not in (_ED25519_BYTES, 2 * _ED25519_BYTES):
        raise Misconfigured("a stored ed25519 key is damaged; rotate the endpoint's secret")
    return Ed25519PrivateKey.from_private_bytes(raw[:_ED25519_BYTES])


def public_key_text(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    """Return the `whpk_…` text of a key."""
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    return PUBLIC_PREFIX + _base64(public.public_bytes_raw())


def ed25519_jwk(public: str) -> Jwk:
    """Return the JWK of a `whpk_…` (RFC 8037, section 2). Raises ValueError for other text."""
    raw = _decoded(public, PUBLIC_PREFIX)
    if raw is None or len(raw) != _ED25519_BYTES:
        raise ValueError("not an ed25519 public key")
    return _with_id({"kty": "OKP", "crv": "Ed25519", "x": _base64url(raw)}, alg="EdDSA")


def generate_rsa() -> str:
    """Return a new private key as PEM (PKCS #8). Takes most of a second."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def rsa_signer(pem: str) -> RsaSigner:
    """Return a signer with this key. Raises Misconfigured, which contains nothing of the key."""
    try:
        # The keyring has authenticated the key; checking its primes again would take 100 ms.
        key = serialization.load_pem_private_key(
            pem.encode(), password=None, unsafe_skip_rsa_key_validation=True
        )
    except ValueError:
        raise _damaged_rsa() from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise _damaged_rsa()
    return RsaSigner(kid=rsa_jwk(key)["kid"], key=key)


def rsa_jwk(key: rsa.RSAPrivateKey | rsa.RSAPublicKey) -> Jwk:
    """Return the JWK of the public key (RFC 7518, section 6.3.1)."""
    public = key.public_key() if isinstance(key, rsa.RSAPrivateKey) else key
    numbers = public.public_numbers()
    return _with_id({"kty": "RSA", "n": _integer(numbers.n), "e": _integer(numbers.e)}, alg="RS256")


def thumbprint(members: Jwk) -> str:
    """Return the SHA-256 thumbprint of a public key's required members (RFC 7638, section 3)."""
    canonical = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
    return _base64url(hashlib.sha256(canonical).digest())


def _with_id(members: Jwk, *, alg: str) -> Jwk:
    return members | {"kid": thumbprint(members), "use": "sig", "alg": alg}


def _damaged_rsa() -> Misconfigured:
    return Misconfigured(
        "a stored RSA key is damaged; create another with `hookfast secrets rotate-signing-key`"
    )


def _decoded(text: str, prefix: str) -> bytes | None:
    if not text.startswith(prefix):
        return None
    try:
        return base64.b64decode(text.removeprefix(prefix), validate=True)
    except ValueError:
        return None


def _integer(value: int) -> str:
    """Encode a Base64urlUInt (RFC 7518, section 2), without leading zero bytes."""
    return _base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
