"""Public keys of the asymmetric profiles, from a JWK Set (RFC 7517) or given directly.

The keys need `cryptography` (`pip install 'hookfast-receiver[asymmetric]'`); importing this module
does not.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from .errors import Misconfigured

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

PUBLIC_KEY_PREFIX = "whpk_"
"""The prefix of an ed25519 public key in Standard Webhooks, before the base64 of its 32 bytes."""

MIN_RSA_BITS = 2048
MAX_RSA_BITS = 8192  # verifying grows with the square of the size


class PublicKeys(Protocol):
    """A source of public keys for a verifier: a fixed `KeySet`, or a `KeyDirectory`."""

    def rsa(self, key_id: str) -> RsaKey | None:
        """Return the RSA key with this id, or None."""

    def ed25519(self) -> Sequence[Ed25519Key]:
        """Return all ed25519 keys: a `v1a` signature does not name its key."""


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
            raise Misconfigured("an RSA key has an invalid modulus or exponent") from None

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key signed `message`."""
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
            raise Misconfigured("an ed25519 public key must have 32 bytes")
        need_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        self._key: Ed25519PublicKey = Ed25519PublicKey.from_public_bytes(raw)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key signed `message`."""
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
            raise Misconfigured("a key set needs at least one key")

    @classmethod
    def from_public_keys(cls, *public_keys: str) -> KeySet:
        """Create a set of ed25519 keys in the format of Standard Webhooks: `whpk_` and base64."""
        return cls(ed25519=[Ed25519Key(_public_bytes(key)) for key in public_keys])

    @classmethod
    def from_jwks(cls, document: bytes | str) -> KeySet:
        """Create a set of a JWK Set's RSA keys for RS256 and OKP keys of the curve Ed25519.

        Other keys are ignored (RFC 7517, section 5). Raises Misconfigured when the document is not
        a JWK Set, one of these keys is invalid, two RSA keys have the same id, or no key is usable.
        """
        rsa: dict[str, RsaKey] = {}
        ed25519: list[Ed25519Key] = []
        for jwk in _jwks(document):
            kind = (jwk.get("kty"), jwk.get("alg"))
            if jwk.get("use", "sig") != "sig":
                continue
            # tuples instead of sets, because a damaged directory may contain unhashable values
            if kind in (("RSA", "RS256"), ("RSA", None)):
                key_id = jwk.get("kid")
                if not isinstance(key_id, str) or key_id in rsa:
                    raise Misconfigured("an RSA key of the set has no `kid`, or a repeated one")
                rsa[key_id] = RsaKey(
                    int.from_bytes(_member(jwk, "n"), "big"),
                    int.from_bytes(_member(jwk, "e"), "big"),
                )
            elif jwk.get("crv") == "Ed25519" and kind in (
                ("OKP", "EdDSA"),
                ("OKP", "Ed25519"),  # the name of this use of EdDSA in RFC 9864
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
    """Decode a base64url member without padding (RFC 7515, section 2)."""
    value = jwk.get(name)
    if isinstance(value, str):
        try:
            padded = value + "=" * (-len(value) % 4)
            return base64.b64decode(padded, altchars=b"-_", validate=True)
        except ValueError:
            pass
    raise Misconfigured(f"a key of the set has no usable `{name}`")


def _public_bytes(public_key: str) -> bytes:
    encoded = public_key.removeprefix(PUBLIC_KEY_PREFIX)
    if encoded == public_key:
        raise Misconfigured(f"a public key must begin with {PUBLIC_KEY_PREFIX}")
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        raise Misconfigured(f"a public key must be base64 after {PUBLIC_KEY_PREFIX}") from None


def need_cryptography() -> None:
    """Raise Misconfigured when `cryptography`, which public keys need, is not installed."""
    try:
        import cryptography  # noqa: F401 - only checks that it is installed
    except ImportError:
        raise Misconfigured(
            "public keys need `cryptography`: pip install 'hookfast-receiver[asymmetric]'"
        ) from None
