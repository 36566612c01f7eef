"""HMACs of shared secrets, as providers send them: read strictly, compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from hookfast.inbox.refused import Refused

Hash: TypeAlias = Literal["sha1", "sha256", "sha384", "sha512"]
Encoding: TypeAlias = Literal["hex", "base64", "base64url"]

_HEX = re.compile(r"[0-9a-f]+")


def keys_of(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """The secrets as HMAC keys (their UTF-8), without those that are empty or blank: an HMAC with
    an empty key is one anybody can make. Raises Refused (`secret_missing`) when none is left."""
    keys = tuple(key for secret in secrets if secret.strip() and (key := _utf8(secret)))
    if not keys:
        raise Refused("secret_missing", "the source has no secret; give it one")
    return keys


def require_match(
    signatures: Sequence[bytes],
    keys: Sequence[bytes],
    message: bytes,
    *,
    hash_name: Hash = "sha256",
) -> None:
    """Raise Refused (`signature_mismatch`) unless a key made one of these signatures."""
    require_any(signatures, keys, [message], hash_name=hash_name)


def require_any(
    signatures: Sequence[bytes],
    keys: Sequence[bytes],
    messages: Sequence[bytes],
    *,
    hash_name: Hash = "sha256",
) -> None:
    """Raise Refused (`signature_mismatch`) unless a key made one of these signatures of one of the
    messages: more than one where a provider leaves open how it wrote what it signed.

    Every key is tried with every signature whatever fitted before, so that the time this takes
    tells neither which of them was near nor which secret is in use.
    """
    fits = False
    for key in keys:
        for message in messages:
            expected = hmac.digest(key, message, hash_name)
            for one in signatures:
                fits |= hmac.compare_digest(expected, one)
    if not fits:
        raise mismatch()


def require_token(token: str, keys: Sequence[bytes]) -> None:
    """Raise Refused (`signature_mismatch`) unless `token` is one of the secrets themselves."""
    fits = False
    for key in keys:
        fits |= hmac.compare_digest(key, token.encode())
    if not fits:
        raise mismatch()


def mismatch() -> Refused:
    """The one answer to every signature that does not fit."""
    return Refused(
        "signature_mismatch",
        "no secret of this source fits the signature: compare it with the provider's, and see that "
        "no proxy changes the body",
    )


def decoded(text: str, *, header: str, encoding: Encoding, hash_name: Hash = "sha256") -> bytes:
    """The bytes of one signature. Raises Refused (`signature_malformed`) unless `text` is the one
    spelling its encoding has (lower-case hex, padded base64) of as many bytes as the hash gives."""
    raw = _from_hex(text) if encoding == "hex" else _from_base64(text, encoding=encoding)
    size = hashlib.new(hash_name, usedforsecurity=False).digest_size
    if raw is None or len(raw) != size:
        kind = "lower-case hex digits" if encoding == "hex" else f"padded {encoding}"
        raise Refused("signature_malformed", f"{header} does not hold {size} bytes as {kind}")
    return raw


def encoded(raw: bytes, encoding: Encoding) -> str:
    """A signature as text."""
    match encoding:
        case "hex":
            return raw.hex()
        case "base64":
            return base64.b64encode(raw).decode()
        case "base64url":
            return base64.urlsafe_b64encode(raw).decode()


def signature(
    secret: str, message: bytes, *, hash_name: Hash = "sha256", encoding: Encoding = "hex"
) -> str:
    """What a provider with this secret would send."""
    return encoded(hmac.digest(secret.encode(), message, hash_name), encoding)


def _utf8(secret: str) -> bytes:
    try:
        return secret.encode()
    except UnicodeEncodeError:  # a lone surrogate: no provider can have this secret
        return b""


def _from_hex(text: str) -> bytes | None:
    return bytes.fromhex(text) if len(text) % 2 == 0 and _HEX.fullmatch(text) else None


def _from_base64(text: str, *, encoding: Encoding) -> bytes | None:
    altchars = b"-_" if encoding == "base64url" else b"+/"
    try:
        raw = base64.b64decode(text, altchars=altchars, validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters outside ASCII
        return None
    # b64decode passes over bits it does not need; a signature has one spelling here
    return raw if encoded(raw, encoding) == text else None
