"""Mail as files."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import pytest

from hookfast.mail import FolderTransport, MailDelayed, News, compose, transport_of
from hookfast.mail_address import parse_mailbox
from hookfast.owners.notice import Facts, NoticeKind
from hookfast.settings.settings import Settings

pytestmark = pytest.mark.anyio

AT = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)


def mail(message_id: str = "<1@localhost>", at: datetime = AT) -> EmailMessage:
    return compose(
        NoticeKind.RECOVERED,
        [
            News(
                notice_id="ntc_1",
                endpoint_id="ep_1",
                url="https://shop.example/",
                description="",
                facts=Facts(),
            )
        ],
        sender=parse_mailbox("hookfast@localhost"),
        to="owner@shop.example",
        message_id=message_id,
        public_url="https://hooks.example",
        at=at,
    )


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def test_message_is_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    transport = transport_of(Settings(home=tmp_path))

    await transport.send(mail())

    (path,) = files(tmp_path / "mail")
    assert path.name.startswith("20261120T111500Z-")
    assert path.suffix == ".eml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    message = message_from_bytes(path.read_bytes(), policy=default)
    assert message["To"] == "owner@shop.example"
    assert message["Message-ID"] == "<1@localhost>"


async def test_message_is_written_once(tmp_path: Path) -> None:
    transport = FolderTransport(tmp_path)
    await transport.send(mail())
    (before,) = files(tmp_path)
    content = before.read_bytes()

    await transport.send(mail(at=AT + timedelta(hours=1)))
    assert [path.read_bytes() for path in files(tmp_path)] == [content]

    await transport.send(mail("<2@localhost>"))
    assert len(files(tmp_path)) == 2


async def test_leftover_of_a_crash_is_overwritten(tmp_path: Path) -> None:
    await FolderTransport(tmp_path).send(mail())
    (path,) = files(tmp_path)
    path.unlink()
    # in a container, the next process may have the same id
    path.with_name(f".{path.name}.{os.getpid()}").write_text("half a mess")

    await FolderTransport(tmp_path).send(mail())

    assert files(tmp_path) == [path]
    assert path.read_bytes().endswith(b"--\r\n")


async def test_unwritable_folder_delays_mail(tmp_path: Path) -> None:
    (tmp_path / "mail").write_text("in the way")
    with pytest.raises(MailDelayed) as delayed:
        await FolderTransport(tmp_path / "mail").send(mail())
    assert str(tmp_path) not in str(delayed.value)  # the message goes into workflow history
    assert str(tmp_path) in delayed.value.words
