"""Mail as files: the default for a machine without a mail server."""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parsedate_to_datetime
from pathlib import Path

from hookfast.mail.transport import MailDelayed


class FolderTransport:
    """Writes each message into a folder as `<time>-<hash of its Message-ID>.eml`, which any mail
    program opens. A message that exists already is not written again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def send(self, message: EmailMessage) -> None:
        """Write the message, completely or not at all. Raises MailDelayed if that fails."""
        try:
            await asyncio.to_thread(self._write, message)
        except OSError as error:
            words = f"{error.strerror or type(error).__name__}: {self._folder}"
            raise MailDelayed("The mail folder cannot be written.", words=words) from error

    def _write(self, message: EmailMessage) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest = hashlib.sha256(message["Message-ID"].encode()).hexdigest()[:16]
        if any(self._folder.glob(f"*-{digest}.eml")):
            return
        time = parsedate_to_datetime(message["Date"]).strftime("%Y%m%dT%H%M%SZ")
        path = self._folder / f"{time}-{digest}.eml"
        # Written to a temporary file and renamed: a crash leaves no half message, and two writers
        # of the same message end with one file. Each process has its own temporary name.
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with suppress(FileNotFoundError):
            temporary.unlink()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(message.as_bytes(policy=SMTP))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
