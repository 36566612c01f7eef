"""Secrets at rest: sealed with AES-256-GCM (NIST SP 800-38D) under a ring of keys. Pure.

The newest key seals; every key opens what it sealed, so a key is rotated by putting a new one in
front. A sealed secret is bound to its context (e.g. the endpoint's id): copied to another row, it
does not open. It is the base64 of

    key id (8 bytes) | nonce (12 bytes, random) | ciphertext and tag

A random nonce is safe for 2^32 secrets per key (SP 800-38D, section 8.3).
"""

from __future__ import annotations

import base64
import binascii
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
    """Seals and opens secrets. Shows nothing of its keys."""

    __slots__ = ("_ciphers", "_newest")

    def __init__(self, keys: Sequence[bytes]) -> None:
        """`keys`: 32 bytes each, newest first. Raises Misconfigured for none or a wrong length."""
        if not keys:
            raise Misconfigured("HOOKFAST_ENCRYPTION_KEYS holds no key; " + _MAKE_ONE)
        if any(len(key) != KEY_BYTES for key in keys):
            raise Misconfigured(
                f"HOOKFAST_ENCRYPTION_KEYS: each key is {KEY_BYTES} bytes; " + _MAKE_ONE
            )
        self._newest = _key_id(keys[0])
        self._ciphers = {_key_id(key): AESGCM(key) for key in keys}

    def __repr__(self) -> str:
        return "Keyring(…)"

    def seal(self, secret: str, *, context: str) -> str:
        """`secret` sealed for `context`, as base64 text; each call gives another."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        ciphertext = self._ciphers[self._newest].encrypt(nonce, secret.encode(), context.encode())
        return base64.b64encode(self._newest + nonce + ciphertext).decode()

    def is_current(self, sealed: str) -> bool:
        """Whether the newest key sealed this. Says nothing of whether it opens."""
        try:
            raw = base64.b64decode(sealed, validate=True)
        except (binascii.Error, ValueError):  # ValueError: characters outside ASCII
            return False
        return hmac.compare_digest(raw[:_ID_BYTES], self._newest)

    def open(self, sealed: str, *, context: str) -> str:
        """The secret that was sealed for `context`. Raises Misconfigured when its key is not in
        the ring, or when the sealed text was altered or belongs to another context."""
        key_id, nonce, ciphertext = _split(sealed, context=context)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise Misconfigured(
                f"no key in HOOKFAST_ENCRYPTION_KEYS opens the secret of {context}; append the "
                "key it was sealed with to the list, or give it a new secret"
            )
        try:
            return cipher.decrypt(nonce, ciphertext, context.encode()).decode()
        except InvalidTag:
            raise _damaged(context) from None

    def reseal(self, sealed: str, *, context: str) -> str:
        """The same secret, sealed by the newest key; raises as `open` does."""
        if self.is_current(sealed):
            return sealed
        return self.seal(self.open(sealed, context=context), context=context)


def parse_keys(text: str) -> tuple[bytes, ...]:
    """The keys in HOOKFAST_ENCRYPTION_KEYS: base64 of 32 bytes each, separated by commas, newest
    first. Raises Misconfigured, naming the one that is wrong by its place only."""
    keys: list[bytes] = []
    for place, part in enumerate(text.split(","), start=1):
        try:
            keys.append(decode_key(part))
        except ValueError as error:
            raise Misconfigured(
                f"HOOKFAST_ENCRYPTION_KEYS: key {place} {error}; {_MAKE_ONE}"
            ) from None
    return tuple(keys)


def decode_key(text: str) -> bytes:
    """The key in `text`, base64 (RFC 4648, section 4) with any white space around it. Raises
    ValueError, which says what is wrong and nothing of the key."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters outside ASCII
        raise ValueError("is not base64") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"has {len(key)} bytes instead of {KEY_BYTES}")
    return key


def encode_key(key: bytes) -> str:
    """The text `decode_key` reads."""
    return base64.b64encode(key).decode()


_MAKE_ONE = "make one with `openssl rand -base64 32`"


def _key_id(key: bytes) -> bytes:
    # derived, so that operators name no keys; 64 bits of an HMAC tell nothing about the key
    return hmac.digest(key, b"hookfast key id", "sha256")[:_ID_BYTES]


def _split(sealed: str, *, context: str) -> tuple[bytes, bytes, bytes]:
    try:
        raw = base64.b64decode(sealed, validate=True)
    except (binascii.Error, ValueError):  # ValueError: characters outside ASCII
        raise _damaged(context) from None
    if len(raw) < _ID_BYTES + _NONCE_BYTES + _TAG_BYTES:
        raise _damaged(context)
    start = _ID_BYTES + _NONCE_BYTES
    return raw[:_ID_BYTES], raw[_ID_BYTES:start], raw[start:]


def _damaged(context: str) -> Misconfigured:
    return Misconfigured(
        f"the stored secret of {context} was altered or sealed for something else; "
        "restore it from a backup, or give it a new secret"
    )
