"""The doctor on mail servers that are unreachable, silent, or deny access. It sends nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest
import trustme

from hookfast.doctor.examination import Check, examine
from hookfast.doctor.mail import check_mail
from tests.e2e.service_process import free_ports
from tests.integration.doctor.conftest import installation, problems, run_check
from tests.support.mail_server import MailServer

pytestmark = pytest.mark.anyio

SENDER = "Hooks <hooks@example.com>"
GOOD = "hook:p%40ss%2Fword%3A%20100%25@"


@pytest.fixture(scope="session")
def serving() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_server_that_accepts_our_mail_is_ok_and_gets_none(
    tmp_path: Path, serving: ssl.SSLContext
) -> None:
    with MailServer(starttls=serving, login=True) as server:
        settings = installation(tmp_path, None, smtp_url=server.url(GOOD), mail_from=SENDER)
        findings = await run_check("mail", settings)
    assert problems(findings) == {}
    assert "over TLS" in findings[0].saw
    assert server.logins == [True]
    assert (server.tries, server.mails) == (1, [])


async def test_a_wrong_password_fails_and_is_not_shown(
    tmp_path: Path, serving: ssl.SSLContext
) -> None:
    with MailServer(starttls=serving, login=True) as server:
        url = server.url("hook:hunter2@")
        findings = await run_check(
            "mail", installation(tmp_path, None, smtp_url=url, mail_from=SENDER)
        )
    assert "535" in problems(findings)["mail"][1]
    assert "hunter2" not in str(findings)


async def test_sender_that_the_server_rejects_fails(tmp_path: Path) -> None:
    with MailServer() as server:
        server.answers["MAIL"] = "553 5.1.8 Sender address rejected: Domain not found"
        settings = installation(tmp_path, None, smtp_url=server.url(), mail_from=SENDER)
        found = problems(await run_check("mail", settings))
    assert found["mail"][0] == "fail"
    assert "553 5.1.8" in found["mail"][1]
    assert "HOOKFAST_MAIL_FROM" in found["mail"][1]


async def test_untrusted_certificate_fails(tmp_path: Path, serving: ssl.SSLContext) -> None:
    with MailServer(starttls=serving) as server:
        url = server.url(query="?starttls=required")
        findings = await run_check(
            "mail", installation(tmp_path, None, smtp_url=url, mail_from=SENDER)
        )
    assert "certificate" in problems(findings)["mail"][1].lower()


async def test_unreachable_server_fails(tmp_path: Path) -> None:
    url = f"smtp://127.0.0.1:{free_ports(1)[0]}"
    settings = installation(tmp_path, None, smtp_url=url, mail_from=SENDER)
    found = problems(await run_check("mail", settings))
    assert found["mail"][0] == "fail"


async def test_silent_server_fails_at_the_time_limit(tmp_path: Path) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"smtp://127.0.0.1:{port}"
        settings = installation(tmp_path, None, smtp_url=url, mail_from=SENDER)
        check = Check(name="mail", run=check_mail, todo="Use another port.", seconds=0.2)
        found = problems(await examine(settings, checks=(check,)))
    assert found == {"mail": ("fail", "No answer within 0.2 seconds. Use another port.")}


@pytest.mark.parametrize(
    ("given", "status", "word"),
    [
        ({}, "warn", "no mail server"),
        ({"smtp_url": "smtp://user@:host"}, "fail", "HOOKFAST_SMTP_URL"),
    ],
)
async def test_missing_or_invalid_mail_settings_are_named(
    tmp_path: Path, given: dict[str, str], status: str, word: str
) -> None:
    findings = await run_check("mail", installation(tmp_path, None, **given))
    assert any(one.status == status and word in one.saw for one in findings)
