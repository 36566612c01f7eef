"""The keyring in use: from `HOOKFAST_ENCRYPTION_KEYS`, or from the key file in the home folder."""

from __future__ import annotations

from hookfast.settings.settings import Settings
from hookfast.signing.keyring import Keyring, parse_keys
from hookfast.storage.keys.key_file import load_or_create

KEY_FILE = "encryption.key"
"""The key file's name in the home folder."""


def keyring_of(settings: Settings) -> Keyring:
    """Return the keys that seal and open secrets. Raises Misconfigured for invalid keys."""
    if settings.encryption_keys is not None:
        return Keyring(parse_keys(settings.encryption_keys.get_secret_value()))
    return Keyring([load_or_create(settings.home / KEY_FILE)])
