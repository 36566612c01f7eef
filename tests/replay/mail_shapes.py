"""The shapes of the histories of owners' mail and of the daily workflow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from email.message import EmailMessage
from unittest.mock import patch

from hookfast.mail import FolderTransport
from hookfast.owners.digest import workflow_id
from hookfast.owners.notice import NoticeKind, owner_hash
from hookfast.retention.daily import WORKFLOW_TYPE, DailyInput
from hookfast.workflow_request import CONTROL_QUEUE
from tests.integration.delivery.conftest import Stack
from tests.support.mail_stack import MailStack


async def owner_mail_sent(stack: Stack) -> str:
    mail = MailStack(stack.client, stack.database)
    await mail.notify(await mail.endpoint())
    await mail.until_notified()
    return _id(mail)


async def owner_mail_in_several_kinds(stack: Stack) -> str:
    mail = MailStack(stack.client, stack.database)
    endpoint_id = await mail.endpoint()
    for kind in NoticeKind:
        await mail.notify(endpoint_id, kind)
    await mail.until_notified()
    return _id(mail)


async def owner_mail_rested(stack: Stack) -> str:
    mail = MailStack(stack.client, stack.database)
    await mail.notify(await mail.endpoint())
    await mail.until_notified()
    await mail.until_ended()
    await mail.notify(await mail.endpoint())
    await mail.until_notified()
    return _id(mail)


async def owner_mail_woken_while_it_rested(stack: Stack) -> str:
    mail = MailStack(stack.client, stack.database, digest_every=timedelta(seconds=5))
    endpoint_id = await mail.endpoint()
    await mail.notify(endpoint_id)
    await mail.until_notified()
    await mail.until_ended()
    await mail.notify(endpoint_id, episode=2)
    await mail.workflow_starter().start_requested()
    await mail.until_waiting()
    await mail.notify(endpoint_id, NoticeKind.RECOVERED)
    await mail.workflow_starter().start_requested()
    await mail.until_notified()
    return _id(mail)


async def owner_mail_with_news_while_sending(stack: Stack) -> str:
    mail = MailStack(stack.client, stack.database)
    endpoint_id = await mail.endpoint()
    send = FolderTransport.send

    async def send_late(transport: FolderTransport, message: EmailMessage) -> None:
        if await mail.notify(endpoint_id, NoticeKind.RECOVERED):
            await mail.workflow_starter().start_requested()
        await send(transport, message)

    with patch.object(FolderTransport, "send", send_late):
        await mail.notify(endpoint_id)
        await mail.until(lambda rows: [row.status for row in rows] == ["sent", "sent"])
    return _id(mail)


async def upkeep_of_one_day(stack: Stack) -> str:
    handle = await stack.client.start_workflow(
        WORKFLOW_TYPE, DailyInput(), id="upkeep/recorded", task_queue=CONTROL_QUEUE
    )
    return handle.id


def _id(mail: MailStack) -> str:
    return workflow_id(owner_hash(mail.owner))


MAIL_SHAPES: tuple[Callable[[Stack], Awaitable[str]], ...] = (
    owner_mail_sent,
    owner_mail_in_several_kinds,
    owner_mail_rested,
    owner_mail_woken_while_it_rested,
    owner_mail_with_news_while_sending,
    upkeep_of_one_day,
)
