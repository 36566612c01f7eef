"""HMAC signatures as providers send them: decoded strictly, compared in constant time."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from hookfast.inbox.errors import RequestRejected

Hash: TypeAlias = Literal["sha1", "sha256", "sha384", "sha512"]
Encoding: TypeAlias = Literal["hex", "base64", "base64url"]


def hmac_keys(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Return the secrets as HMAC keys (UTF-8), without empty or blank ones: anybody can compute an
    HMAC with an empty key. Raises RequestRejected (`secret_missing`) when none is left."""
    keys = tuple(key for secret in secrets if secret.strip() and (key := _utf8(secret)))
    if not keys:
        raise RequestRejected("secret_missing", "the source has no secret; add one to it")
    return keys


def require_signature(
    signatures: Sequence[bytes],
    keys: Sequence[bytes],
    *messages: bytes,
    hash_name: Hash = "sha256",
) -> None:
    """Raise RequestRejected (`signature_mismatch`) unless one of the signatures is the HMAC of a
    message under one of the keys. Several messages: the forms that a provider may have signed.

    Every key is tried with every signature, even after a match, so that the time taken reveals
    neither which signature was close nor which secret is in use.
    """
    matches = False
    for key in keys:
        for message in messages:
            expected = hmac.digest(key, message, hash_name)
            for signature in signatures:
                matches |= hmac.compare_digest(expected, signature)
    if not matches:
        raise signature_mismatch()


def require_token(token: str, keys: Sequence[bytes]) -> None:
    """Raise RequestRejected (`signature_mismatch`) unless `token` is one of the secrets."""
    matches = False
    for key in keys:
        matches |= hmac.compare_digest(key, token.encode())
    if not matches:
        raise signature_mismatch()


def signature_mismatch() -> RequestRejected:
    """Return the one error for every signature that does not match, whatever the reason."""
    return RequestRejected(
        "signature_mismatch",
        "no secret of this source matches the signature: compare it with the provider's secret, "
        "and check that no proxy changes the body",
    )


def decode_signature(
    text: str,
    *,
    header: str,
    prefix: str = "",
    encoding: Encoding = "hex",
    hash_name: Hash = "sha256",
) -> bytes:
    """Return the bytes of one signature. Raises RequestRejected (`signature_malformed`) unless
    `text` is `prefix` and the canonical encoding (lower-case hex, padded base64) of a digest."""
    if not text.startswith(prefix):
        raise RequestRejected("signature_malformed", f"{header} does not begin with {prefix}")
    text = text.removeprefix(prefix)
    raw = _decoded(text, encoding)
    size = hashlib.new(hash_name, usedforsecurity=False).digest_size
    if raw is None or len(raw) != size:
        kind = "lower-case hex digits" if encoding == "hex" else f"padded {encoding}"
        raise RequestRejected("signature_malformed", f"{header} is not {size} bytes as {kind}")
    return raw


def _encoded(raw: bytes, encoding: Encoding) -> str:
    match encoding:
        case "hex":
            return raw.hex()
        case "base64":
            return base64.b64encode(raw).decode()
        case "base64url":
            return base64.urlsafe_b64encode(raw).decode()


def hmac_signature(
    secret: str, message: bytes, *, hash_name: Hash = "sha256", encoding: Encoding = "hex"
) -> str:
    """Return the encoded signature that a provider with this secret would send."""
    return _encoded(hmac.digest(secret.encode(), message, hash_name), encoding)


def _utf8(secret: str) -> bytes:
    try:
        return secret.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no provider's secret contains
        return b""


def _decoded(text: str, encoding: Encoding) -> bytes | None:
    try:
        if encoding == "hex":
            raw = bytes.fromhex(text)
        else:
            altchars = b"-_" if encoding == "base64url" else b"+/"
            raw = base64.b64decode(text, altchars=altchars, validate=True)
    except ValueError:
        return None
    # Only the canonical encoding is accepted: `fromhex` also reads capitals and blanks, and
    # `b64decode` ignores unused trailing bits.
    return raw if _encoded(raw, encoding) == text else None
