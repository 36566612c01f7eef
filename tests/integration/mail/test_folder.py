"""Mail as files."""

from __future__ import annotations

import os
from datetime import timedelta
from email import message_from_bytes
from email.policy import default
from pathlib import Path

import pytest

from hookfast.mail import FolderTransport, MailDelayed, transport_of
from hookfast.settings.settings import Settings
from tests.support.owner_mail import AT, MESSAGE_ID, OWNER, written

pytestmark = pytest.mark.anyio


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def test_message_is_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    transport = transport_of(Settings(home=tmp_path))

    await transport.send(written())

    (path,) = files(tmp_path / "mail")
    assert path.name.startswith("20261120T111500Z-")
    assert path.suffix == ".eml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    message = message_from_bytes(path.read_bytes(), policy=default)
    assert message["To"] == OWNER
    assert message["Message-ID"] == MESSAGE_ID


async def test_message_is_written_once(tmp_path: Path) -> None:
    transport = FolderTransport(tmp_path)
    await transport.send(written())
    (before,) = files(tmp_path)
    content = before.read_bytes()

    await transport.send(written(at=AT + timedelta(hours=1)))
    assert [path.read_bytes() for path in files(tmp_path)] == [content]

    await transport.send(written(message_id="<2@platform.example>"))
    assert len(files(tmp_path)) == 2


async def test_leftover_of_a_crash_is_overwritten(tmp_path: Path) -> None:
    await FolderTransport(tmp_path).send(written())
    (path,) = files(tmp_path)
    path.unlink()
    # in a container, the next process may have the same id
    path.with_name(f".{path.name}.{os.getpid()}").write_text("half a mess")

    await FolderTransport(tmp_path).send(written())

    assert files(tmp_path) == [path]
    assert path.read_bytes().endswith(b"--\r\n")


async def test_unwritable_folder_delays_mail(tmp_path: Path) -> None:
    (tmp_path / "mail").write_text("in the way")
    with pytest.raises(MailDelayed) as delayed:
        await FolderTransport(tmp_path / "mail").send(written())
    assert str(tmp_path) not in str(delayed.value)  # the message goes into workflow history
    assert str(tmp_path) in delayed.value.words
