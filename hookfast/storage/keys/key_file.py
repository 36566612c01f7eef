"""The default place of the encryption key: a text file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from hookfast.errors import Misconfigured
from hookfast.signing.keyring import KEY_BYTES, decode_key, encode_key

_MODE = 0o600
_OTHERS = 0o077  # any permission of the group or of others
_MAX_BYTES = 1_024  # a key is 45 bytes; anything longer is some other file


def load_or_create(path: Path) -> bytes:
    """Return the 32-byte key in the file at `path`; if there is no file, create it with a new key.

    Any number of processes may call this at once and get the same key: the file is written under
    another name, synced, and linked into place, so it is either absent or complete, also after a
    crash. Raises Misconfigured when others can read the file, or when it cannot be created or has
    no valid key: a lost key makes every stored secret unreadable, so a damaged file is never
    replaced.
    """
    try:
        try:
            return _load(path)
        except FileNotFoundError:
            _create(path)
            return _load(path)
    except OSError as error:
        raise Misconfigured(
            f"the key file {path} cannot be used ({error.strerror or error}); make its folder "
            "writable, or set HOOKFAST_ENCRYPTION_KEYS"
        ) from error


def _load(path: Path) -> bytes:
    # non-blocking: a FIFO at this path must not hang the start
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise Misconfigured(f"the key file {path} is not a regular file; move it away")
        if mode & _OTHERS:
            raise Misconfigured(f"others can read the key file {path}; run: chmod 600 {path}")
        content = os.read(descriptor, _MAX_BYTES)
    finally:
        os.close(descriptor)
    try:
        return decode_key(content.decode())
    except ValueError as error:
        reason = "is not text" if isinstance(error, UnicodeError) else str(error)
        raise Misconfigured(
            f"the key in {path} {reason}; restore the file from a backup, or remove it if no "
            "secret was ever stored"
        ) from None


def _create(path: Path) -> None:
    """Create the file with a new key, unless another process does so first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(encode_key(secrets.token_bytes(KEY_BYTES)) + "\n")
            file.flush()
            os.fsync(descriptor)
        with suppress(FileExistsError):  # another process was first; its key counts
            os.link(temporary, path)
    finally:
        temporary.unlink()
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that the new file's name survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
