"""Public keys of the asymmetric profiles, from a JWK Set (RFC 7517) or given by hand.

The keys need `cryptography` (`pip install 'hookfast-receiver[asymmetric]'`), this module does not.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from .errors import Misconfigured

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

PUBLIC_KEY_PREFIX = "whpk_"
"""Standard Webhooks writes an ed25519 public key as `whpk_` and the base64 of its 32 bytes."""

MIN_RSA_BITS = 2048
MAX_RSA_BITS = 8192  # verifying grows with the square of the size


class PublicKeys(Protocol):
    """Where a verifier gets public keys. `KeySet` holds some, `KeyDirectory` fetches them."""

    def rsa(self, key_id: str) -> RsaKey | None:
        """The RSA key with this id, None when there is none."""

    def ed25519(self) -> Sequence[Ed25519Key]:
        """Every ed25519 key: a `v1a` signature does not say which one made it."""


class RsaKey:
    """Verifies RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017, section 8.2; JWA's RS256)."""

    __slots__ = ("_key",)

    def __init__(self, modulus: int, exponent: int) -> None:
        if not MIN_RSA_BITS <= modulus.bit_length() <= MAX_RSA_BITS:
            raise Misconfigured(f"an RSA key must have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits")
        need_cryptography()
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

        try:
            self._key: RSAPublicKey = RSAPublicNumbers(exponent, modulus).public_key()
        except ValueError:
            raise Misconfigured("an RSA key has an impossible modulus or exponent") from None

    def fits(self, signature: bytes, message: bytes) -> bool:
        """Whether this key signed `message`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            self._key.verify(signature, message, PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True


class Ed25519Key:
    """Verifies ed25519 (RFC 8032, section 5.1.7)."""

    __slots__ = ("_key",)

    def __init__(self, raw: bytes) -> None:
        if len(raw) != 32:
            raise Misconfigured("an ed25519 public key has 32 bytes")
        need_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        self._key: Ed25519PublicKey = Ed25519PublicKey.from_public_bytes(raw)

    def fits(self, signature: bytes, message: bytes) -> bool:
        """Whether this key signed `message`."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


class KeySet:
    """A fixed set of public keys."""

    __slots__ = ("_ed25519", "_rsa")

    def __init__(
        self, *, rsa: Mapping[str, RsaKey] | None = None, ed25519: Sequence[Ed25519Key] = ()
    ) -> None:
        self._rsa = dict(rsa or {})
        self._ed25519 = tuple(ed25519)
        if not self._rsa and not self._ed25519:
            raise Misconfigured("a key set without a key would verify nothing")

    @classmethod
    def from_public_keys(cls, *public_keys: str) -> KeySet:
        """Of ed25519 keys as Standard Webhooks writes them: `whpk_` and base64."""
        return cls(ed25519=[Ed25519Key(_public_bytes(key)) for key in public_keys])

    @classmethod
    def from_jwks(cls, document: bytes | str) -> KeySet:
        """Of a JWK Set: its RSA keys for RS256 and its OKP keys of the curve Ed25519.

        Keys of other kinds or for other uses are passed over (RFC 7517, section 5). Raises
        Misconfigured when the document is no JWK Set, a key of ours is broken, two RSA keys have
        one id, or nothing usable is left.
        """
        rsa: dict[str, RsaKey] = {}
        ed25519: list[Ed25519Key] = []
        for jwk in _jwks(document):
            kind = (jwk.get("kty"), jwk.get("alg"))
            if jwk.get("use", "sig") != "sig":
                continue
            # tuples, and no sets: a damaged directory may hold there what has no hash
            if kind in (("RSA", "RS256"), ("RSA", None)):
                key_id = jwk.get("kid")
                if not isinstance(key_id, str) or key_id in rsa:
                    raise Misconfigured("an RSA key of the set has no `kid`, or shares it")
                rsa[key_id] = RsaKey(
                    int.from_bytes(_member(jwk, "n"), "big"),
                    int.from_bytes(_member(jwk, "e"), "big"),
                )
            elif jwk.get("crv") == "Ed25519" and kind in (
                ("OKP", "EdDSA"),
                ("OKP", "Ed25519"),  # the name RFC 9864 gives this use of EdDSA
                ("OKP", None),
            ):
                ed25519.append(Ed25519Key(_member(jwk, "x")))
        return cls(rsa=rsa, ed25519=ed25519)

    def rsa(self, key_id: str) -> RsaKey | None:
        return self._rsa.get(key_id)

    def ed25519(self) -> Sequence[Ed25519Key]:
        return self._ed25519


def _jwks(document: bytes | str) -> list[dict[str, object]]:
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        raise Misconfigured("the key set is not JSON") from None
    keys = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise Misconfigured('the key set is not a JWK Set: {"keys": […]} (RFC 7517)')
    return keys


def _member(jwk: Mapping[str, object], name: str) -> bytes:
    """A base64url value without padding (RFC 7515, section 2)."""
    value = jwk.get(name)
    if isinstance(value, str):
        try:
            padded = value + "=" * (-len(value) % 4)
            return base64.b64decode(padded, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            pass
    raise Misconfigured(f"a key of the set has no usable `{name}`")


def _public_bytes(public_key: str) -> bytes:
    encoded = public_key.removeprefix(PUBLIC_KEY_PREFIX)
    if encoded == public_key:
        raise Misconfigured(f"a public key begins with {PUBLIC_KEY_PREFIX}")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Misconfigured(f"a public key is base64 after {PUBLIC_KEY_PREFIX}") from None


def need_cryptography() -> None:
    """Raise Misconfigured where public keys cannot be used, however right they are."""
    try:
        import cryptography  # noqa: F401 - only whether it is there
    except ImportError:
        raise Misconfigured(
            "public keys need `cryptography`: pip install 'hookfast-receiver[asymmetric]'"
        ) from None
