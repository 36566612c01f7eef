"""Encrypt secrets at rest with AES-256-GCM (NIST SP 800-38D) under a ring of keys. Pure.

The newest key encrypts ("seals"), and all keys decrypt ("open"), so a key is rotated by adding a
new one in front. A sealed secret is bound to its context (e.g. the endpoint's id): copied to
another row, it cannot be opened. It is the base64 of

    key id (8 bytes) | nonce (12 bytes, random) | ciphertext and tag

A random nonce is safe for 2^32 secrets per key (SP 800-38D, section 8.3).
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hookfast.errors import Misconfigured

KEY_BYTES = 32
_ID_BYTES = 8
_NONCE_BYTES = 12
_TAG_BYTES = 16


class Keyring:
    """Seals and opens secrets. Never shows its keys."""

    __slots__ = ("_ciphers", "_newest")

    def __init__(self, keys: Sequence[bytes]) -> None:
        """`keys`: 32 bytes each, newest first. Raises Misconfigured for other lengths or none."""
        if not keys:
            raise Misconfigured("HOOKFAST_ENCRYPTION_KEYS contains no key; " + _HOW_TO_CREATE)
        if any(len(key) != KEY_BYTES for key in keys):
            raise Misconfigured(
                f"HOOKFAST_ENCRYPTION_KEYS: use keys of {KEY_BYTES} bytes; " + _HOW_TO_CREATE
            )
        self._newest = _key_id(keys[0])
        self._ciphers = {_key_id(key): AESGCM(key) for key in keys}

    def __repr__(self) -> str:
        return "Keyring(…)"

    def seal(self, secret: str, *, context: str) -> str:
        """Encrypt `secret` for `context`. Return base64 text, different for each call."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        ciphertext = self._ciphers[self._newest].encrypt(nonce, secret.encode(), context.encode())
        return base64.b64encode(self._newest + nonce + ciphertext).decode()

    def is_current(self, sealed: str) -> bool:
        """Return whether the newest key sealed this secret; it may still fail to open."""
        return hmac.compare_digest(_decoded(sealed)[:_ID_BYTES], self._newest)

    def open(self, sealed: str, *, context: str) -> str:
        """Decrypt a secret that was sealed for `context`. Raises Misconfigured when its key is not
        in the ring, or the sealed text was altered or belongs to another context."""
        key_id, nonce, ciphertext = _split(sealed, context=context)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise Misconfigured(
                f"no key in HOOKFAST_ENCRYPTION_KEYS decrypts the secret of {context}; append the "
                "key that encrypted it, or create a new secret"
            )
        try:
            return cipher.decrypt(nonce, ciphertext, context.encode()).decode()
        except InvalidTag:
            raise _damaged(context) from None

    def reseal(self, sealed: str, *, context: str) -> str:
        """Return the same secret, sealed by the newest key. Raises the errors of `open`."""
        if self.is_current(sealed):
            return sealed
        return self.seal(self.open(sealed, context=context), context=context)


def parse_keys(text: str) -> tuple[bytes, ...]:
    """Parse HOOKFAST_ENCRYPTION_KEYS: base64 of 32 bytes each, separated by commas, newest first.
    Raises Misconfigured, which names a wrong key only by its position."""
    keys: list[bytes] = []
    for position, part in enumerate(text.split(","), start=1):
        try:
            keys.append(decode_key(part))
        except ValueError as error:
            raise Misconfigured(
                f"HOOKFAST_ENCRYPTION_KEYS: key {position} {error}; {_HOW_TO_CREATE}"
            ) from None
    return tuple(keys)


def decode_key(text: str) -> bytes:
    """Decode a base64 key (RFC 4648, section 4), with or without white space around it. Raises
    ValueError, whose message contains nothing of the key."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        raise ValueError("is not base64") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"has {len(key)} bytes instead of {KEY_BYTES}")
    return key


def encode_key(key: bytes) -> str:
    """Return a key as the base64 text that `decode_key` reads."""
    return base64.b64encode(key).decode()


_HOW_TO_CREATE = "create one with `openssl rand -base64 32`"


def _key_id(key: bytes) -> bytes:
    # Derived, so that operators need not name keys. 64 bits of an HMAC reveal nothing of the key.
    return hmac.digest(key, b"hookfast key id", "sha256")[:_ID_BYTES]


def _split(sealed: str, *, context: str) -> tuple[bytes, bytes, bytes]:
    raw = _decoded(sealed)
    if len(raw) < _ID_BYTES + _NONCE_BYTES + _TAG_BYTES:
        raise _damaged(context)
    start = _ID_BYTES + _NONCE_BYTES
    return raw[:_ID_BYTES], raw[_ID_BYTES:start], raw[start:]


def _decoded(sealed: str) -> bytes:
    """Return the bytes of a sealed secret; none if the text is not base64."""
    try:
        return base64.b64decode(sealed, validate=True)
    except ValueError:
        return b""


def _damaged(context: str) -> Misconfigured:
    return Misconfigured(
        f"the stored secret of {context} was altered or encrypted for another row; "
        "restore it from a backup, or create a new secret"
    )
