"""A worker that mails endpoint owners, on a real Temporal server."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import select
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import Worker, WorkflowRunner

from activities.owner_mail import MailActivities
from hookfast.clock import utc_now
from hookfast.dispatch.workflow_starter import WorkflowStarter
from hookfast.mail import MailTransport
from hookfast.owners.digest import workflow_id
from hookfast.owners.notice import NoticeKind, owner_hash
from hookfast.signing.portal_link import OwnerLinks
from hookfast.storage.database.engine import Database
from hookfast.storage.owners import notices
from hookfast.storage.owners.notices import MailWorkflowRequests
from hookfast.storage.tables import Notice
from hookfast.workflow_request import CONTROL_QUEUE
from tests.integration.delivery.conftest import SANDBOX
from tests.support.seed import seed_endpoint
from tests.support.waiting import eventually
from workflows.owner_mail import OwnerMailWorkflow


def some_owner() -> str:
    """Return a unique address: the id of an owner's workflow is derived from it."""
    return f"owner-{secrets.token_hex(8)}@shop.example"


@dataclass
class MailStack:
    """A Temporal client and a database; `running` adds a worker and a workflow starter."""

    client: Client
    database: Database
    owner: str = field(default_factory=some_owner)
    gather: timedelta = timedelta(seconds=0.2)
    digest_every: timedelta = timedelta(minutes=15)
    links: OwnerLinks | None = None
    _running: WorkflowStarter | None = None

    @asynccontextmanager
    async def running(
        self, transport: MailTransport, *, runner: WorkflowRunner = SANDBOX, slots: int = 100
    ) -> AsyncIterator[None]:
        """Send mail while the block lasts, by a worker with this many slots, half of them for
        mails that are being sent."""
        mail = MailActivities(
            database=self.database,
            transport=transport,
            mail_from="Hooks <hooks@platform.example>",
            public_url="https://hooks.example",
            links=self.links,
            at_once=slots // 2,
        )
        worker = Worker(
            self.client,
            task_queue=CONTROL_QUEUE,
            workflows=[OwnerMailWorkflow],
            activities=mail.all,
            workflow_runner=runner,
            max_concurrent_activities=slots,
        )
        async with worker, asyncio.TaskGroup() as group:
            self._running = self.workflow_starter()
            starting = group.create_task(self._running.run())
            yield
            starting.cancel()

    def workflow_starter(self) -> WorkflowStarter:
        requests = MailWorkflowRequests(gather=self.gather, digest_every=self.digest_every)
        return WorkflowStarter(self.client, self.database, [requests])

    async def endpoint(self, *owners: str, url: str = "https://shop.example/hooks?token=1") -> str:
        owner_emails = list(owners or (self.owner,))
        return await seed_endpoint(self.database, url, owner_emails=owner_emails)

    async def notify(
        self, endpoint_id: str, kind: NoticeKind = NoticeKind.OPENED, **options: Any
    ) -> int:
        async with self.database.write() as connection:
            added = await notices.add(
                connection,
                endpoint_id=endpoint_id,
                kind=kind,
                at=utc_now(),
                **({"episode": 1, "facts": {"failures": 5}} | options),
            )
        if self._running is not None:
            self._running.wake()
        return added

    async def rows(self, owner: str | None = None) -> list[Any]:
        c = Notice.__table__.c
        async with self.database.read() as connection:
            rows = await connection.execute(
                select(Notice.__table__).where(c.email == (owner or self.owner)).order_by(c.id)
            )
            return list(rows)

    async def until(self, check: Callable[[list[Any]], bool]) -> list[Any]:
        """Wait until `check` is true of the owner's notices, and return them."""

        async def checked() -> list[Any] | None:
            rows = await self.rows()
            return rows if rows and check(rows) else None

        return await eventually(checked)

    async def until_notified(self) -> list[Any]:
        """Wait until no notice of the owner is pending, and return them."""
        return await self.until(lambda rows: all(row.status != "pending" for row in rows))

    def workflow(self) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(workflow_id(owner_hash(self.owner)))

    async def until_waiting(self) -> None:
        """Wait until the workflow has nothing to do but to wait for its timer."""

        async def waiting() -> bool:
            events = (await self.workflow().fetch_history()).events
            return events[-1].HasField("timer_started_event_attributes")

        await eventually(waiting)

    async def until_resting(self) -> None:
        """Wait until the workflow has read what waits, and rests until its next digest."""

        async def resting() -> bool:
            events = (await self.workflow().fetch_history()).events
            has_read = any(
                one.HasField("activity_task_completed_event_attributes") for one in events
            )
            return has_read and events[-1].HasField("timer_started_event_attributes")

        await eventually(resting)

    async def until_tried(self) -> None:
        """Wait until the workflow has tried to send a mail, and tries again."""
        await self.until(lambda rows: rows[0].workflow_started_at is not None)

        async def tried() -> bool:
            described = (await self.workflow().describe()).raw_description
            return any(
                one.activity_type.name == "send_mail" and one.attempt > 1
                for one in described.pending_activities
            )

        await eventually(tried)

    async def until_ended(self) -> Any:
        """Wait until the workflow has ended, and return its description."""

        async def ended() -> Any:
            description = await self.workflow().describe()
            assert description.status in (
                WorkflowExecutionStatus.RUNNING,
                WorkflowExecutionStatus.COMPLETED,
                WorkflowExecutionStatus.CONTINUED_AS_NEW,
            )
            return description if description.close_time else None

        return await eventually(ended)
