"""Mail through a real SMTP server, on asyncio's loop and on uvloop, which a worker runs on."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import quote

import pytest

from hookfast.mail import AddressRejected, MailDelayed, MailUnconfirmed, SmtpTransport, smtp
from hookfast.owners.notice import Facts
from tests.e2e.service_process import free_ports
from tests.support.broken_mail_server import BrokenMailServer
from tests.support.mail_server import PASSWORD, USER, MailServer
from tests.support.owner_mail import MESSAGE_ID, OWNER, news, written

pytestmark = pytest.mark.anyio

LOGIN = f"{USER.decode()}:{quote(PASSWORD.decode(), safe='')}@"
WRONG_LOGIN = f"{USER.decode()}:guessed@"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    ],
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


async def test_message_arrives_as_text_and_html(mail_server: MailServer) -> None:
    facts = Facts(last_error="500 Internal Server Error")
    await SmtpTransport(mail_server.url()).send(written(news(description="Grüße", facts=facts)))

    (arrived,) = mail_server.mails
    assert (arrived.sender, arrived.recipients) == ("hooks@platform.example", [OWNER])
    assert arrived.message_id == MESSAGE_ID
    assert arrived.message["Subject"] == "Webhooks to shop1.example are failing"
    assert "Grüße" in arrived.part("plain")
    assert "<td>500 Internal Server Error</td>" in arrived.part("html")


async def test_address_with_an_internationalised_domain_gets_mail(mail_server: MailServer) -> None:
    await SmtpTransport(mail_server.url()).send(written(to="ops@müller.example"))

    (arrived,) = mail_server.mails
    assert arrived.recipients == ["ops@xn--mller-kva.example"]


async def test_offered_starttls_is_used(serving: ssl.SSLContext) -> None:
    with MailServer(starttls=serving) as server:
        await SmtpTransport(server.url()).send(written())  # although its certificate is not trusted
    assert [one.secure for one in server.mails] == [True]


async def test_starttls_never_is_not_used(serving: ssl.SSLContext) -> None:
    with MailServer(starttls=serving) as server:
        await SmtpTransport(server.url(query="?starttls=never")).send(written())
    assert [one.secure for one in server.mails] == [False]


async def test_required_starttls_verifies_the_server(
    serving: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    with MailServer(starttls=serving) as server:
        url = server.url(query="?starttls=required")
        with pytest.raises(MailDelayed):
            await SmtpTransport(url).send(written())
        assert server.mails == []
        await SmtpTransport(url, tls=trusting).send(written())
    assert [one.secure for one in server.mails] == [True]


async def test_required_starttls_sends_nothing_without_it(mail_server: MailServer) -> None:
    with pytest.raises(MailDelayed):
        await SmtpTransport(mail_server.url(query="?starttls=required")).send(written())
    assert mail_server.mails == []


async def test_smtps_verifies_the_server(serving: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    with MailServer(tls=serving) as server:
        url = server.url(scheme="smtps")
        with pytest.raises(MailDelayed):
            await SmtpTransport(url).send(written())
        await SmtpTransport(url, tls=trusting).send(written())
    assert [one.secure for one in server.mails] == [True]


async def test_login_is_over_tls(serving: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    with MailServer(starttls=serving, login=True) as server:
        url = server.url(LOGIN, query="?starttls=required")
        await SmtpTransport(url, tls=trusting).send(written())
    assert server.logins == [True]
    assert len(server.mails) == 1


async def test_wrong_password_delays_mail_and_is_not_quoted(
    serving: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    with MailServer(starttls=serving, login=True) as server:
        url = server.url(WRONG_LOGIN, query="?starttls=required")
        with pytest.raises(MailDelayed) as delayed:
            await SmtpTransport(url, tls=trusting).send(written())
    assert True not in server.logins
    assert "guessed" not in str(delayed.value) + delayed.value.words


async def test_missing_login_delays_mail(
    serving: ssl.SSLContext,
) -> None:
    with (
        MailServer(starttls=serving, login=True) as server,
        pytest.raises(MailDelayed) as delayed,
    ):
        await SmtpTransport(server.url()).send(written())
    assert delayed.value.words.startswith("530 ")


@pytest.mark.parametrize("where", [OWNER, "DATA"])
async def test_unknown_recipient_is_permanent(mail_server: MailServer, where: str) -> None:
    mail_server.answers[where] = "550 5.1.1 No such\tuser"
    with pytest.raises(AddressRejected) as rejected:
        await SmtpTransport(mail_server.url()).send(written())
    assert rejected.value.words == "550 5.1.1 No such user"
    assert mail_server.mails == []


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("MAIL", "553 5.1.8 Sender is not yours"),
        (OWNER, "554 5.7.1 <owner@shop.example>: Relay access denied"),
        ("DATA", "554 5.7.1 Looks like spam"),
    ],
)
async def test_mail_that_the_server_would_accept_from_nobody_waits(
    mail_server: MailServer, where: str, answer: str
) -> None:
    """The server answers so for every address. If the address were blamed, all mail would end."""
    mail_server.answers[where] = answer
    with pytest.raises(MailDelayed) as delayed:
        await SmtpTransport(mail_server.url()).send(written())
    assert delayed.value.words == answer
    assert OWNER not in str(delayed.value)  # the message goes into workflow history


@pytest.mark.parametrize("where", [OWNER, "DATA", "MAIL"])
async def test_busy_server_delays_mail(mail_server: MailServer, where: str) -> None:
    mail_server.answers[where] = "451 4.7.1 Greylisted, owner@shop.example"
    with pytest.raises(MailDelayed) as delayed:
        await SmtpTransport(mail_server.url()).send(written())
    assert delayed.value.words.startswith("451 4.7.1 Greylisted")
    assert OWNER not in str(delayed.value)  # the message goes into workflow history


async def test_unreachable_server_delays_mail() -> None:
    (port,) = free_ports(1)
    with pytest.raises(MailDelayed):
        await SmtpTransport(f"smtp://127.0.0.1:{port}").send(written())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "_COMMAND_SECONDS", 0.2)
    monkeypatch.setattr(smtp, "_DEADLINE_SECONDS", 0.6)


@pytest.mark.parametrize(
    ("at", "then"),
    [
        ("connect", "hang"),
        ("connect", "reset"),
        ("connect", "421 4.3.2 Closing"),
        ("connect", "554 5.3.2 No mail for you"),
        ("EHLO", "hang"),
        ("STARTTLS", "220 Go on"),  # and then no TLS
        ("STARTTLS", "454 4.7.0 TLS not available"),
        ("MAIL", "hang"),
        ("MAIL", "421 4.7.0 Too many mails"),
        ("RCPT", "reset"),
        ("DATA", "451 4.7.1 Greylisted"),
        ("message", "452 4.3.1 Disk full"),
    ],
)
async def test_server_that_hangs_breaks_or_declines_delays_mail(
    impatient: None, at: str, then: str
) -> None:
    tls = "required" if at == "STARTTLS" else "never"
    async with BrokenMailServer(at=at, then=then) as server:
        with pytest.raises(MailDelayed) as delayed:
            await SmtpTransport(f"{server.url}?starttls={tls}").send(written())
    assert not isinstance(delayed.value, MailUnconfirmed)
    assert delayed.value.words
    assert OWNER not in str(delayed.value)


@pytest.mark.parametrize("then", ["hang", "reset"])
async def test_mail_whose_answer_never_comes_is_unconfirmed(impatient: None, then: str) -> None:
    async with BrokenMailServer(at="message", then=then) as server:
        with pytest.raises(MailUnconfirmed):
            await SmtpTransport(f"{server.url}?starttls=never").send(written())
        assert server.messages == 1


async def test_answer_to_a_message_may_take_longer_than_to_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(smtp, "_COMMAND_SECONDS", 0.2)
    async with BrokenMailServer(at="message", then="hang") as server:
        sending = asyncio.create_task(SmtpTransport(f"{server.url}?starttls=never").send(written()))
        done, _ = await asyncio.wait([sending], timeout=0.6)
        assert not done
        sending.cancel()


async def test_connection_that_ends_after_the_answer_does_not_repeat_the_mail(
    impatient: None,
) -> None:
    async with BrokenMailServer(at="QUIT", then="reset") as server:
        await SmtpTransport(f"{server.url}?starttls=never").send(written())
