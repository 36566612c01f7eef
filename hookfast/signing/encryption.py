"""Encrypt bodies as JWE (RFC 7516), so that only the receiver's private key can read them. Pure.

It protects bodies in proxies, queues and logs between Hookfast and the receiver, which TLS does not
cover. The signature covers the ciphertext, which is the body that is sent.
"""

from __future__ import annotations

import base64
import gc
from collections.abc import Mapping
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from hookfast.errors import InvalidInput

Algorithm = Literal["RSA-OAEP-256", "ECDH-ES+A256KW"]
ContentEncryption = Literal["A256GCM"]

CONTENT_TYPE = "application/jose"
"""The media type of the compact serialisation (RFC 7515, section 9.2.1)."""
MIN_RSA_BITS = 2_048  # RFC 7518, section 4.3
MAX_RSA_BITS = 8_192  # beyond this, encryption takes tens of milliseconds per attempt
MAX_KEY_ID = 200
_LARGE = 256 * 1024  # bytes of a body

_PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth", "k")  # RFC 7518, sections 6.2.2, 6.3.2, 6.4
_PARAMETERS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_CURVES = {"EC": ("P-256", "P-384", "P-521"), "OKP": ("X25519",)}
_KINDS: Mapping[Algorithm, tuple[str, ...]] = {
    "RSA-OAEP-256": ("RSA",),
    "ECDH-ES+A256KW": ("EC", "OKP"),
}

_Key = RSAKey | ECKey | OKPKey
_TYPES: Mapping[str, type[_Key]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


class Encryption:
    """Encrypts bodies for one receiver."""

    __slots__ = ("_header", "_key", "_registry")

    def __init__(
        self, jwk: Mapping[str, Any], *, alg: Algorithm, enc: ContentEncryption = "A256GCM"
    ) -> None:
        """`jwk` is a key that `checked_jwk` returned. Raises InvalidInput for any other."""
        self._key = _imported({name: jwk[name] for name in jwk if name != "kid"})
        # RFC 7516, section 4.1.12: the content is JSON, written without `application/`
        self._header = {"alg": alg, "enc": enc, "cty": "json"}
        if "kid" in jwk:
            self._header["kid"] = jwk["kid"]
        self._registry = jwe.JWERegistry(algorithms=[alg, enc])

    def encrypt(self, body: bytes) -> bytes:
        """Return `body` as JWE in compact serialisation, different each time. Takes about 0.1 ms,
        and 1 ms for 256 KiB."""
        token = jwe.encrypt_compact(self._header, body, self._key, registry=self._registry)
        encrypted = token.encode()
        if len(body) > _LARGE:
            # joserfc's objects refer to each other, and would hold two copies of the body until a
            # collection that may come minutes later. Collecting the youngest takes 1 ms at most.
            gc.collect(1)
        return encrypted


def encrypted_size(size: int) -> int:
    """Return how long a body of this size is at most once it is encrypted."""
    return size * 4 // 3 + 4_096  # base64url (RFC 7515, section 2), the header, the sealed key


def checked_jwk(jwk: Mapping[str, Any], *, alg: Algorithm, pointer: str) -> dict[str, str]:
    """Return the public key in `jwk` (RFC 7517) with only the required members, and its `kid`.
    Raises InvalidInput, pointing into `pointer`, for a private key or one `alg` cannot use."""
    for name in _PRIVATE:
        if name in jwk:
            raise _invalid(
                f"{pointer}/{name}",
                "this is a private key. It was not stored, but it has been disclosed: create a new "
                "pair and send only the public key",
            )
    kind = jwk.get("kty")
    if kind not in _KINDS[alg]:
        raise _invalid(f"{pointer}/kty", f"{alg} needs a key of type {_either(_KINDS[alg])}")
    if jwk.get("use", "enc") != "enc":
        raise _invalid(f"{pointer}/use", "this key is not for encryption; `use` must be `enc`")
    if jwk.get("alg", alg) != alg:
        raise _invalid(f"{pointer}/alg", f"this key is not for the algorithm {alg}")
    public = {"kty": str(kind)}
    for name in _PARAMETERS[kind]:
        value = jwk.get(name)
        if not isinstance(value, str) or not value:
            raise _invalid(f"{pointer}/{name}", f"a key of type {kind} needs this member")
        public[name] = value
    if kind in _CURVES and public["crv"] not in _CURVES[kind]:
        raise _invalid(f"{pointer}/crv", f"use the curve {_either(_CURVES[kind])}")
    if kind == "RSA":
        _check_rsa(public, pointer)
    if "kid" in jwk:
        key_id = jwk["kid"]
        if not isinstance(key_id, str) or not 1 <= len(key_id) <= MAX_KEY_ID:
            raise _invalid(f"{pointer}/kid", f"a key id must have 1 to {MAX_KEY_ID} characters")
        public["kid"] = key_id
    try:
        # Encrypting detects keys that importing accepts: a point that is not on its curve, a key of
        # small order.
        Encryption(public, alg=alg).encrypt(b"{}")
    except (InvalidInput, JoseError, ValueError):
        raise _invalid(pointer, f"this is not a public key of type {kind}") from None
    return public


def _check_rsa(public: Mapping[str, str], pointer: str) -> None:
    modulus = _integer(public["n"], f"{pointer}/n")
    exponent = _integer(public["e"], f"{pointer}/e")
    if not MIN_RSA_BITS <= modulus.bit_length() <= MAX_RSA_BITS:
        raise _invalid(f"{pointer}/n", f"use an RSA key of {MIN_RSA_BITS} to {MAX_RSA_BITS} bits")
    if not (exponent % 2 and 3 <= exponent < 2**32):
        raise _invalid(f"{pointer}/e", "use an odd RSA exponent from 3 to 2^32")
    try:
        RSAPublicNumbers(exponent, modulus).public_key()
    except ValueError:
        raise _invalid(f"{pointer}/n", "this is not the modulus of an RSA key") from None


def _integer(text: str, pointer: str) -> int:
    """Decode a Base64urlUInt (RFC 7518, section 2)."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise _invalid(pointer, "this is not base64url") from None
    return int.from_bytes(raw, "big")


def _imported(jwk: Mapping[str, str]) -> _Key:
    kind = _TYPES.get(jwk.get("kty", ""))
    if kind is None:
        raise _invalid("/encryption/jwk/kty", "unknown type of key; use RSA, EC or OKP")
    return kind.import_key(dict(jwk))


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(names)


def _invalid(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, code="invalid_encryption")
