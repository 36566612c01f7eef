"""Owners' mail from the notice to the mailbox: real Temporal, real SMTP server, both databases."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from sqlalchemy import update
from temporalio.common import RetryPolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowRunner

from hookfast.clock import utc_now
from hookfast.mail import MailTransport, SmtpTransport
from hookfast.owners.notice import NoticeKind, owner_hash
from hookfast.signing.portal_link import OwnerLinks, open_link
from hookfast.storage.database.engine import Database
from hookfast.storage.endpoints import endpoints
from hookfast.storage.tables import Delivery, Endpoint, Notice
from tests.support.broken_mail_server import BrokenMailServer
from tests.support.mail_server import MailServer
from tests.support.mail_stack import MailStack, some_owner
from tests.support.seed import KEYRING, seed_delivery
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture
def stack(temporal: WorkflowEnvironment, database: Database) -> MailStack:
    return MailStack(temporal.client, database)


class InterruptedTransport:
    """A transport that calls `before` or `after` around its first send."""

    def __init__(
        self,
        transport: MailTransport,
        *,
        before: Callable[[], Awaitable[object]] | None = None,
        after: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._transport = transport
        self._before, self._after = before, after

    async def send(self, message: EmailMessage) -> None:
        before, self._before = self._before, None
        after, self._after = self._after, None
        if before is not None:
            await before()
        await self._transport.send(message)
        if after is not None:
            await after()


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> WorkflowRunner:
    """Let failed sends be repeated after half a second. Only the returned runner uses this: the
    sandbox would import the module again, without the change."""
    policy = RetryPolicy(initial_interval=timedelta(seconds=0.5))
    monkeypatch.setattr("workflows.owner_mail._UNTIL_DONE", policy)
    return UnsandboxedWorkflowRunner()


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
        await stack.notify(endpoint_id, facts={"last_error": "The receiver answered 500."})
        (row,) = await stack.until_notified()
        description = await stack.until_ended()

    assert (row.status, row.tries, row.error) == ("sent", 1, None)
    (mail,) = server.mails
    assert mail.recipients == [stack.owner]
    assert mail.message_id == row.message_id
    text = mail.part("plain")
    assert "Last error: The receiver answered 500." in text
    assert "Held: 1 delivery" in text
    (sig,) = re.findall(r"More: https://hooks.example/portal/open\?sig=(\S+)", text)
    link = open_link(sig, KEYRING, now=utc_now())
    assert (link.endpoint_id, link.scope) == (endpoint_id, "tenant:read")
    assert link.owner_hash == owner_hash(stack.owner)
    assert "token" not in text.replace(sig, "")
    assert await description.static_summary() == "mail to one owner"


async def test_no_address_enters_workflow_history(stack: MailStack, server: MailServer) -> None:
    server.answers[stack.owner] = f"550 5.1.1 <{stack.owner}>: unknown"
    other = some_owner()
    async with stack.running(SmtpTransport(server.url())):
        await stack.notify(await stack.endpoint(stack.owner, other))
        await stack.until_notified()
        await stack.until_ended()
    history = await stack.workflow().fetch_history()
    stored = b"".join(event.SerializeToString() for event in history.events)
    assert b"OwnerMailWorkflow" in stored
    assert b"shop.example" not in stored


async def test_fifty_endpoints_that_fail_at_once_are_one_mail(
    stack: MailStack, server: MailServer
) -> None:
    for number in range(50):
        await stack.notify(await stack.endpoint(url=f"https://shop{number}.example/"))
    async with stack.running(SmtpTransport(server.url())):
        rows = await stack.until_notified()
        await stack.until_ended()

    (mail,) = server.mails
    assert mail.message["Subject"] == "Webhooks to 50 endpoints are failing"
    text = mail.part("plain")
    assert [text.count(f"https://shop{number}.example/\n") for number in range(50)] == [1] * 50
    assert {row.message_id for row in rows} == {mail.message_id}


async def test_each_owner_gets_a_separate_mail(stack: MailStack, server: MailServer) -> None:
    other = some_owner()
    async with stack.running(SmtpTransport(server.url())):
        await stack.notify(await stack.endpoint(stack.owner, other))
        await stack.until_notified()
        await MailStack(stack.client, stack.database, owner=other).until_notified()
    assert sorted(mail.recipients for mail in server.mails) == sorted([[stack.owner], [other]])


async def test_notices_of_a_kind_within_the_digest_interval_are_one_mail(
    stack: MailStack, server: MailServer
) -> None:
    stack.digest_every = timedelta(seconds=2)
    async with stack.running(SmtpTransport(server.url())):
        await stack.notify(await stack.endpoint())
        (first,) = await stack.until_notified()
        await stack.until_ended()  # the interval applies although the workflow has ended
        for number in range(3):
            await stack.notify(await stack.endpoint(url=f"https://shop{number}.example/"))
        rows = await stack.until_notified()

    assert [mail.message["Subject"] for mail in server.mails] == [
        "Webhooks to shop.example are failing",
        "Webhooks to 3 endpoints are failing",
    ]
    assert rows[-1].sent_at - first.sent_at >= stack.digest_every


async def test_a_kind_does_not_wait_for_the_digest_interval_of_another(
    stack: MailStack, server: MailServer
) -> None:
    endpoint_id = await stack.endpoint()
    async with stack.running(SmtpTransport(server.url())):
        await stack.notify(endpoint_id)
        await stack.until_notified()
        await stack.notify(endpoint_id, episode=2)  # waits for a quarter of an hour
        await stack.until(lambda rows: all(row.workflow_started_at for row in rows))
        await stack.notify(endpoint_id, NoticeKind.RECOVERED)
        rows = await stack.until(lambda rows: rows[-1].status == "sent")
    assert [row.status for row in rows] == ["sent", "pending", "sent"]
    assert [mail.message["Subject"] for mail in server.mails] == [
        "Webhooks to shop.example are failing",
        "Webhooks to shop.example work again",
    ]
    await stack.workflow().terminate()


async def test_restarted_worker_sends_pending_mail_once(
    stack: MailStack, server: MailServer
) -> None:
    stack.gather = timedelta(seconds=2)
    endpoint_id = await stack.endpoint()
    async with stack.running(SmtpTransport(server.url())):
        await stack.notify(endpoint_id)
        await stack.until(lambda rows: rows[0].workflow_started_at is not None)
    assert server.mails == []

    async with stack.running(SmtpTransport(server.url())):
        assert await stack.notify(endpoint_id) == 0  # a repetition after a crash
        await stack.until_notified()
        await stack.until_ended()
    assert len(server.mails) == 1


async def test_crash_after_the_mail_server_accepted_a_mail_repeats_the_same_message(
    stack: MailStack, server: MailServer, quick_retries: WorkflowRunner
) -> None:
    endpoint_id = await stack.endpoint()

    async def crash() -> None:
        await stack.notify(
            endpoint_id, episode=2
        )  # must not join a mail that may have been sent already
        raise OSError("the worker is gone")

    stack.digest_every = timedelta(seconds=0.1)
    transport = InterruptedTransport(SmtpTransport(server.url()), after=crash)
    async with stack.running(transport, runner=quick_retries):
        await stack.notify(endpoint_id)
        first, second = await stack.until_notified()

    once, again, other = server.mails
    assert once.message_id == again.message_id == first.message_id
    assert once.part("plain") == again.part("plain")
    assert other.message_id == second.message_id != first.message_id


async def test_notice_added_while_mail_is_sent_gets_its_own_mail(
    stack: MailStack, server: MailServer
) -> None:
    endpoint_id = await stack.endpoint()

    async def recover() -> None:
        await stack.notify(endpoint_id, NoticeKind.RECOVERED)
        await stack.workflow_starter().start_requested()

    async with stack.running(InterruptedTransport(SmtpTransport(server.url()), before=recover)):
        await stack.notify(endpoint_id)
        await stack.until_notified()
        description = await stack.until_ended()
        assert await stack.workflow().result() == {"sent": 2}
    assert len(server.mails) == 2
    assert description.run_id == description.raw_info.first_run_id


async def test_rejected_address_is_stored_with_the_reason_and_not_tried_again(
    stack: MailStack, server: MailServer
) -> None:
    server.answers[stack.owner] = "550 5.1.1 No such user"
    endpoint_id = await stack.endpoint()
    async with stack.running(SmtpTransport(server.url())):
        await stack.notify(endpoint_id)
        (row,) = await stack.until_notified()
        await stack.until_ended()
        assert await stack.notify(endpoint_id) == 0
        assert await stack.workflow_starter().start_requested() == 0

    assert (row.status, row.error, row.tries) == ("refused", "550 5.1.1 No such user", 1)
    assert row.sent_at is None
    assert (server.tries, server.mails) == (1, [])


async def test_mail_waits_for_an_unavailable_mail_server(
    stack: MailStack, server: MailServer, quick_retries: WorkflowRunner
) -> None:
    server.stop()
    async with stack.running(SmtpTransport(server.url()), runner=quick_retries):
        await stack.notify(await stack.endpoint())
        (pending,) = await stack.until(lambda rows: rows[0].tries > 0)
        assert pending.status == "pending"
        assert "Error connecting" in pending.error
        server.start()
        (row,) = await stack.until_notified()
    assert (row.status, row.error) == ("sent", None)
    assert row.message_id == pending.message_id == server.mails[0].message_id


async def test_greylisted_mail_arrives_once(
    stack: MailStack, server: MailServer, quick_retries: WorkflowRunner
) -> None:
    server.answers[stack.owner] = "451 4.7.1 Greylisted, come back in five minutes"
    async with stack.running(SmtpTransport(server.url()), runner=quick_retries):
        await stack.notify(await stack.endpoint())
        (waiting,) = await stack.until(lambda rows: rows[0].tries > 1)
        assert waiting.error.startswith("451 4.7.1 Greylisted")
        del server.answers[stack.owner]
        (row,) = await stack.until_notified()
        await stack.until_ended()
    assert (row.status, row.error, len(server.mails)) == ("sent", None, 1)


async def test_mail_that_was_not_confirmed_is_repeated_after_an_hour(
    stack: MailStack, quick_retries: WorkflowRunner
) -> None:
    async with BrokenMailServer(at="message", then="reset") as server:
        transport = SmtpTransport(f"{server.url}?starttls=never")
        async with stack.running(transport, runner=quick_retries):
            await stack.notify(await stack.endpoint())
            (row,) = await stack.until(lambda rows: rows[0].tries > 0)

            async def scheduled() -> Any:
                (pending,) = (await stack.workflow().describe()).raw_description.pending_activities
                return pending if pending.HasField("next_attempt_schedule_time") else None

            pending = await eventually(scheduled)
    wait = pending.next_attempt_schedule_time.seconds - pending.last_attempt_complete_time.seconds
    assert 3590 < wait < 3610
    assert (row.status, server.messages) == ("pending", 1)
    await stack.workflow().terminate()


async def test_mail_server_that_hangs_leaves_slots_to_others_and_gets_each_mail_once(
    stack: MailStack, quick_retries: WorkflowRunner
) -> None:
    crowd = [MailStack(stack.client, stack.database) for _ in range(7)]
    async with BrokenMailServer(at="connect", then="hang") as server:
        transport = SmtpTransport(f"{server.url}?starttls=never")
        async with stack.running(transport, runner=quick_retries, slots=4):
            for one in crowd:
                await stack.notify(await stack.endpoint(one.owner))

            async def hangs() -> bool:
                return server.connections == 2

            await eventually(hangs)
            # an activity of the same worker, as circuits and jobs have
            await stack.notify(await stack.endpoint())
            await stack.until_tried()
            assert server.busiest == 2
            server.at = ""
            server.let_go()
            for one in (stack, *crowd):
                await one.until_notified()
                await one.until_ended()
        assert server.messages == 8


async def test_nothing_is_sent_about_a_deleted_endpoint_or_to_a_former_owner(
    stack: MailStack, server: MailServer
) -> None:
    deleted, left = await stack.endpoint(), await stack.endpoint()
    for endpoint_id in (deleted, left):
        await stack.notify(endpoint_id)
    async with stack.database.write() as connection:
        await endpoints.mark_deleted(connection, deleted, at=utc_now())
        c = Endpoint.__table__.c
        await connection.execute(
            update(Endpoint.__table__).where(c.id == left).values(owner_emails=[some_owner()])
        )
    async with stack.running(SmtpTransport(server.url())):
        rows = await stack.until_notified()
        await stack.until_ended()
    assert [row.status for row in rows] == ["dropped", "dropped"]
    assert server.mails == []


async def test_long_workflow_continues_as_new_and_loses_no_mail(
    stack: MailStack, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflows.owner_mail._ROUNDS_PER_RUN", 1)
    stack.digest_every = timedelta(hours=1)
    # the sandbox would import the module again, without the change
    async with stack.running(SmtpTransport(server.url()), runner=UnsandboxedWorkflowRunner()):
        await stack.notify(await stack.endpoint())
        await stack.until_notified()
        await stack.until_ended()
        await stack.notify(await stack.endpoint())
        await stack.until_resting()
        async with stack.database.write() as connection:  # as if the first mail was long ago
            sent = Notice.__table__.c.sent_at
            await connection.execute(
                update(Notice.__table__)
                .where(sent.is_not(None))
                .values(sent_at=utc_now() - timedelta(hours=2))
            )
        await stack.workflow().signal("wake")  # ends the rest, and with it the only round
        await stack.until_notified()
        description = await stack.until_ended()
    assert len(server.mails) == 2
    assert description.run_id != description.raw_info.first_run_id
