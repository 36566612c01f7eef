"""Owners' mail from the notice to the mailbox: real Temporal, real SMTP server, both databases."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from email.message import EmailMessage

import pytest
from sqlalchemy import update
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner

from hookfast.clock import utc_now
from hookfast.mail import MailTransport, SmtpTransport
from hookfast.owners.notice import NoticeKind, owner_hash
from hookfast.signing.portal_link import OwnerLinks, open_link
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoints
from hookfast.storage.tables import Delivery, Endpoint
from tests.support.mail_server import MailServer
from tests.support.mail_stack import MailStack, some_owner
from tests.support.seed import KEYRING, seed_delivery

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture
def stack(temporal: WorkflowEnvironment, database: Database) -> MailStack:
    return MailStack(temporal.client, database)


class Meddling:
    """A transport with something happening before (`first`) or after (`then`) its first send."""

    def __init__(
        self,
        transport: MailTransport,
        *,
        first: Callable[[], Awaitable[object]] | None = None,
        then: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._transport = transport
        self._first, self._then = first, then

    async def send(self, message: EmailMessage) -> None:
        first, self._first = self._first, None
        then, self._then = self._then, None
        if first is not None:
            await first()
        await self._transport.send(message)
        if then is not None:
            await then()


async def test_an_owner_gets_one_mail_and_the_workflow_ends(
    stack: MailStack, server: MailServer
) -> None:
    endpoint_id = await stack.endpoint()
    stack.links = OwnerLinks(KEYRING, timedelta(days=7))
    delivery_id = await seed_delivery(stack.database, endpoint_id)
    async with stack.database.write() as connection:
        c = Delivery.__table__.c
        await connection.execute(
            update(Delivery.__table__).where(c.id == delivery_id).values(status="held")
        )
    async with stack.running(SmtpTransport(server.url())):
        await stack.tell(endpoint_id, facts={"last_error": "The receiver answered 500."})
        (row,) = await stack.until_told()
        description = await stack.until_ended()

    assert (row.status, row.tries, row.error) == ("sent", 1, None)
    (mail,) = server.mails
    assert mail.recipients == [stack.owner]
    assert mail.message_id == row.message_id
    told = mail.part("plain")
    assert "Last error: The receiver answered 500." in told
    assert "Waiting: 1 delivery" in told
    (sig,) = re.findall(r"More: https://hooks.example/dashboard/portal\?sig=(\S+)", told)
    link = open_link(sig, KEYRING, now=utc_now())
    assert (link.endpoint_id, link.scope) == (endpoint_id, "tenant:read")
    assert link.owner_hash == owner_hash(stack.owner)
    assert "token" not in told.replace(sig, "")
    assert await description.static_summary() == "mail to one owner"


async def test_no_address_enters_workflow_history(stack: MailStack, server: MailServer) -> None:
    server.answers[stack.owner] = f"550 5.1.1 <{stack.owner}>: unknown"
    other = some_owner()
    async with stack.running(SmtpTransport(server.url())):
        await stack.tell(await stack.endpoint(stack.owner, other))
        await stack.until_told()
        await stack.until_ended()
    history = await stack.workflow().fetch_history()
    said = b"".join(event.SerializeToString() for event in history.events)
    assert b"OwnerMailWorkflow" in said
    assert b"shop.example" not in said


async def test_fifty_endpoints_that_fail_at_once_are_one_mail(
    stack: MailStack, server: MailServer
) -> None:
    for number in range(50):
        await stack.tell(await stack.endpoint(url=f"https://shop{number}.example/"))
    async with stack.running(SmtpTransport(server.url())):
        rows = await stack.until_told()
        await stack.until_ended()

    (mail,) = server.mails
    assert mail.message["Subject"] == "Webhooks to 50 endpoints are failing"
    told = mail.part("plain")
    assert [told.count(f"https://shop{number}.example/\n") for number in range(50)] == [1] * 50
    assert {row.message_id for row in rows} == {mail.message_id}


async def test_each_owner_has_a_mail_of_his_own(stack: MailStack, server: MailServer) -> None:
    other = some_owner()
    async with stack.running(SmtpTransport(server.url())):
        await stack.tell(await stack.endpoint(stack.owner, other))
        await stack.until_told()
        await MailStack(stack.client, stack.database, owner=other).until_told()
    assert sorted(mail.recipients for mail in server.mails) == sorted([[stack.owner], [other]])


async def test_a_kind_rests_after_a_mail_and_the_news_goes_into_one_digest(
    stack: MailStack, server: MailServer
) -> None:
    stack.digest_every = timedelta(seconds=2)
    async with stack.running(SmtpTransport(server.url())):
        await stack.tell(await stack.endpoint())
        (first,) = await stack.until_told()
        await stack.until_ended()  # the rest is kept although the workflow is not there to keep it
        for number in range(3):
            await stack.tell(await stack.endpoint(url=f"https://shop{number}.example/"))
        rows = await stack.until_told()

    assert [mail.message["Subject"] for mail in server.mails] == [
        "Webhooks to shop.example are failing",
        "Webhooks to 3 endpoints are failing",
    ]
    assert rows[-1].sent_at - first.sent_at >= stack.digest_every


async def test_a_kind_does_not_wait_for_the_rest_of_another(
    stack: MailStack, server: MailServer
) -> None:
    endpoint_id = await stack.endpoint()
    async with stack.running(SmtpTransport(server.url())):
        await stack.tell(endpoint_id)
        await stack.until_told()
        await stack.tell(endpoint_id, episode=2)  # rests for a quarter of an hour
        await stack.until(lambda rows: all(row.workflow_started_at for row in rows))
        await stack.tell(endpoint_id, NoticeKind.RECOVERED)
        rows = await stack.until(lambda rows: rows[-1].status == "sent")
    assert [row.status for row in rows] == ["sent", "pending", "sent"]
    assert [mail.message["Subject"] for mail in server.mails] == [
        "Webhooks to shop.example are failing",
        "Webhooks to shop.example work again",
    ]
    await stack.workflow().terminate()


async def test_a_worker_that_restarts_sends_what_waited_once(
    stack: MailStack, server: MailServer
) -> None:
    stack.gather = timedelta(seconds=2)
    endpoint_id = await stack.endpoint()
    async with stack.running(SmtpTransport(server.url())):
        await stack.tell(endpoint_id)
        await stack.until(lambda rows: rows[0].workflow_started_at is not None)
    assert server.mails == []

    async with stack.running(SmtpTransport(server.url())):
        assert await stack.tell(endpoint_id) == 0  # whoever opened the circuit crashed and repeats
        await stack.until_told()
        await stack.until_ended()
    assert len(server.mails) == 1


async def test_a_crash_after_the_mail_server_took_it_sends_the_same_message_again(
    stack: MailStack, server: MailServer
) -> None:
    endpoint_id = await stack.endpoint()

    async def crash() -> None:
        await stack.tell(endpoint_id, episode=2)  # must not join a mail that may be out already
        raise OSError("the worker is gone")

    stack.digest_every = timedelta(seconds=0.1)
    async with stack.running(Meddling(SmtpTransport(server.url()), then=crash)):
        await stack.tell(endpoint_id)
        first, second = await stack.until_told()

    once, again, other = server.mails
    assert once.message_id == again.message_id == first.message_id
    assert once.part("plain") == again.part("plain")
    assert other.message_id == second.message_id != first.message_id


async def test_what_happens_while_mail_is_sent_is_told_too(
    stack: MailStack, server: MailServer
) -> None:
    endpoint_id = await stack.endpoint()

    async def recover() -> None:
        await stack.tell(endpoint_id, NoticeKind.RECOVERED)
        await stack.workflow_starter().start_requested()

    async with stack.running(Meddling(SmtpTransport(server.url()), first=recover)):
        await stack.tell(endpoint_id)
        await stack.until_told()
        description = await stack.until_ended()
        assert await stack.workflow().result() == {"sent": 2}
    assert len(server.mails) == 2
    assert description.run_id == description.raw_info.first_run_id


async def test_a_refused_address_is_kept_with_the_reason_and_not_tried_again(
    stack: MailStack, server: MailServer
) -> None:
    server.answers[stack.owner] = "550 5.1.1 No such user"
    endpoint_id = await stack.endpoint()
    async with stack.running(SmtpTransport(server.url())):
        await stack.tell(endpoint_id)
        (row,) = await stack.until_told()
        await stack.until_ended()
        assert await stack.tell(endpoint_id) == 0
        assert await stack.workflow_starter().start_requested() == 0

    assert (row.status, row.error, row.tries) == ("refused", "550 5.1.1 No such user", 1)
    assert row.sent_at is None
    assert (server.tries, server.mails) == (1, [])


async def test_mail_waits_for_a_mail_server_that_is_away(
    stack: MailStack, server: MailServer
) -> None:
    server.stop()
    async with stack.running(SmtpTransport(server.url())):
        await stack.tell(await stack.endpoint())
        (waits,) = await stack.until(lambda rows: rows[0].tries > 0)
        assert waits.status == "pending"
        assert "Error connecting" in waits.error
        server.start()
        (row,) = await stack.until_told()
    assert (row.status, row.error) == ("sent", None)
    assert row.message_id == waits.message_id == server.mails[0].message_id


async def test_nothing_is_sent_about_a_deleted_endpoint_or_to_a_former_owner(
    stack: MailStack, server: MailServer
) -> None:
    deleted, left = await stack.endpoint(), await stack.endpoint()
    for endpoint_id in (deleted, left):
        await stack.tell(endpoint_id)
    async with stack.database.write() as connection:
        await endpoints.mark_deleted(connection, deleted, at=utc_now())
        c = Endpoint.__table__.c
        await connection.execute(
            update(Endpoint.__table__).where(c.id == left).values(owner_emails=[some_owner()])
        )
    async with stack.running(SmtpTransport(server.url())):
        rows = await stack.until_told()
        await stack.until_ended()
    assert [row.status for row in rows] == ["dropped", "dropped"]
    assert server.mails == []


async def test_a_long_life_continues_as_new_and_loses_nothing(
    stack: MailStack, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflows.owner_mail._LOOKS_PER_RUN", 1)
    stack.digest_every = timedelta(seconds=2)
    # the sandbox would load the module anew, without the change
    async with stack.running(SmtpTransport(server.url()), runner=UnsandboxedWorkflowRunner()):
        await stack.tell(await stack.endpoint())
        await stack.until_told()
        await stack.until_ended()
        await stack.tell(await stack.endpoint())
        await stack.until_told()
        description = await stack.until_ended()
    assert len(server.mails) == 2
    assert description.run_id != description.raw_info.first_run_id
