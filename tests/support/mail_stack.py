"""A worker that mails owners, on a real Temporal, and what a test asks of it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import select, update
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
from hookfast.storage.tables import Endpoint, Notice
from hookfast.workflow_request import CONTROL_QUEUE
from tests.integration.delivery.conftest import SANDBOX, eventually
from tests.support.seed import seed_endpoint
from workflows.owner_mail import OwnerMailWorkflow


def some_owner() -> str:
    """An address no other test has: an owner's workflow is named after it."""
    return f"owner-{secrets.token_hex(8)}@shop.example"


@dataclass
class MailStack:
    """A client and a database; `running` adds the worker and the workflow_starter."""

    client: Client
    database: Database
    owner: str = field(default_factory=some_owner)
    gather: timedelta = timedelta(seconds=0.2)
    digest_every: timedelta = timedelta(minutes=15)
    links: OwnerLinks | None = None
    _running: WorkflowStarter | None = None

    @asynccontextmanager
    async def running(
        self, transport: MailTransport, *, runner: WorkflowRunner = SANDBOX
    ) -> AsyncIterator[None]:
        mail = MailActivities(
            database=self.database,
            transport=transport,
            mail_from="Hooks <hooks@platform.example>",
            public_url="https://hooks.example",
            links=self.links,
        )
        worker = Worker(
            self.client,
            task_queue=CONTROL_QUEUE,
            workflows=[OwnerMailWorkflow],
            activities=mail.all,
            workflow_runner=runner,
        )
        async with worker, asyncio.TaskGroup() as group:
            self._running = self.workflow_starter()
            conducting = group.create_task(self._running.run())
            yield
            conducting.cancel()

    def workflow_starter(self) -> WorkflowStarter:
        asking = MailWorkflowRequests(gather=self.gather, digest_every=self.digest_every)
        return WorkflowStarter(self.client, self.database, [asking])

    async def endpoint(self, *owners: str, url: str = "https://shop.example/hooks?token=1") -> str:
        endpoint_id = await seed_endpoint(self.database, url)
        async with self.database.write() as connection:
            await connection.execute(
                update(Endpoint.__table__)
                .where(Endpoint.__table__.c.id == endpoint_id)
                .values(owner_emails=list(owners or (self.owner,)))
            )
        return endpoint_id

    async def tell(
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
            self._running.ring()
        return added

    async def rows(self, owner: str | None = None) -> list[Any]:
        c = Notice.__table__.c
        async with self.database.read() as connection:
            rows = await connection.execute(
                select(Notice.__table__).where(c.email == (owner or self.owner)).order_by(c.id)
            )
            return list(rows)

    async def until(self, check: Callable[[list[Any]], bool]) -> list[Any]:
        """The owner's notices, once `check` holds for them."""

        async def holds() -> list[Any] | None:
            rows = await self.rows()
            return rows if rows and check(rows) else None

        rows: list[Any] = await eventually(holds)
        return rows

    async def until_told(self) -> list[Any]:
        """The owner's notices, once none waits."""
        return await self.until(lambda rows: all(row.status != "pending" for row in rows))

    def workflow(self) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(workflow_id(owner_hash(self.owner)))

    async def until_ended(self) -> Any:
        """The workflow's description, once it has come to its end."""

        async def ended() -> Any:
            description = await self.workflow().describe()
            assert description.status in (
                WorkflowExecutionStatus.RUNNING,
                WorkflowExecutionStatus.COMPLETED,
                WorkflowExecutionStatus.CONTINUED_AS_NEW,
            )
            return description if description.close_time else None

        return await eventually(ended)
