"""Mail to owners: find what waits, and send one message.

While the mail server is away, `send_mail` fails and Temporal tries again. The failure's message is
kept in workflow history, so it names no address; the server's reply goes into the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from hookfast.clock import utc_now
from hookfast.logs.kind import Kind
from hookfast.mail import (
    AddressRejected,
    MailDelayed,
    MailTransport,
    MailUnconfirmed,
    News,
    compose,
)
from hookfast.mail.message import message_id_of
from hookfast.mail_address import parse_mailbox
from hookfast.owners.digest import MailInput, SendInput, SendResult, Waiting
from hookfast.owners.notice import Facts
from hookfast.signing.portal_link import OwnerLinks
from hookfast.storage.database.engine import Database
from hookfast.storage.owners import digests
from hookfast.storage.owners.digests import BatchedNotice
from hookfast.telemetry import instruments

_UNCONFIRMED_AGAIN = timedelta(hours=1)
"""The next try of a mail that may have arrived. A server that never confirms what it delivers thus
repeats a mail 24 times a day, not every few seconds."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """The notices of one mail, fixed once the mail has a Message-ID."""

    message_id: str
    notices: Sequence[BatchedNotice]

    @property
    def notice_ids(self) -> list[str]:
        return [notice.id for notice in self.notices]

    @property
    def endpoints(self) -> int:
        return len({notice.endpoint_id for notice in self.notices})


class MailActivities:
    """The activities of `OwnerMailWorkflow`. One per worker process. Raises ValueError if the
    sender (`mail_from`) is not an address."""

    def __init__(
        self,
        *,
        database: Database,
        transport: MailTransport,
        mail_from: str,
        public_url: str,
        at_once: int,
        links: OwnerLinks | None = None,
    ) -> None:
        """`at_once`: how many mails are sent at the same time. A mail server that hangs holds no
        more of the worker's slots, which circuits, jobs and retention need too. `links` creates
        links that open without an API key. None: the mail's links require one."""
        self._database = database
        self._transport = transport
        self._sender = parse_mailbox(mail_from)
        self._public_url = public_url
        self._links = links
        self._free = at_once

    @property
    def all(self) -> list[Callable[..., Any]]:
        """Every activity, for the worker."""
        return [self.waiting_mail, self.send_mail]

    @activity.defn(name="waiting_mail")
    async def waiting_mail(self, input: MailInput) -> Waiting:
        """Return the kinds of notices that wait for this owner, and when each is due."""
        async with self._database.read() as connection:
            kinds = await digests.waiting_kinds(
                connection,
                input.owner_hash,
                digest_every=timedelta(seconds=input.digest_every_seconds),
                now=utc_now(),
            )
        return Waiting(kinds)

    @activity.defn(name="send_mail")
    async def send_mail(self, input: SendInput) -> SendResult:
        """Send one mail with all waiting notices of this kind.

        The batch and its Message-ID are committed before the mail is sent. A crash after the mail
        server accepted it and before that is recorded sends the same message again, with the same
        Message-ID.
        """
        if self._free <= 0:
            raise _later("Other mails are being sent; this one is tried again.", type="MailQueued")
        self._free -= 1
        try:
            return await self._send_batch(input)
        finally:
            self._free += 1

    async def _send_batch(self, input: SendInput) -> SendResult:
        batch = await self._begin(input)
        if batch is None:
            return SendResult(endpoints=0)
        try:
            await self._send(input, batch)
        except AddressRejected as refusal:
            async with self._database.write() as connection:
                await digests.mark_refused(connection, batch.notice_ids, error=refusal.words)
            instruments.MAIL.add(kind=input.kind, result="refused")
            log.warning(
                "The mail server rejects an owner's address permanently.",
                owner_hash=input.owner_hash,
                endpoint_id=batch.notices[-1].endpoint_id,
            )
            return SendResult(endpoints=batch.endpoints, refused=True)
        except MailDelayed as delay:
            async with self._database.write() as connection:
                await digests.mark_delayed(connection, batch.notice_ids, error=delay.words)
            instruments.MAIL.add(kind=input.kind, result="delayed")
            again = _UNCONFIRMED_AGAIN if isinstance(delay, MailUnconfirmed) else None
            raise _later(delay.message, type="MailDelayed", after=again) from None
        async with self._database.write() as connection:
            await digests.mark_sent(connection, batch.notice_ids, at=utc_now())
        instruments.MAIL.add(kind=input.kind, result="sent")
        log.info(
            "A mail was sent.",
            kind=Kind.MAIL_SENT,
            mail=input.kind,
            owner_hash=input.owner_hash,
            endpoint_id=batch.notices[-1].endpoint_id,
            tenant_id=batch.notices[-1].tenant_id,
        )
        return SendResult(endpoints=batch.endpoints)

    async def _begin(self, input: SendInput) -> _Batch | None:
        """Fix the batch, unless an earlier try did. None if no owner is left to notify."""
        async with self._database.write() as connection:
            found = await digests.read_batch(connection, input.owner_hash, input.kind)
            left = [notice for notice in found if notice.email in notice.owners]
            if len(left) < len(found):
                kept = {notice.id for notice in left}
                await digests.mark_dropped(
                    connection,
                    [notice.id for notice in found if notice.id not in kept],
                    error="The endpoint was deleted, or this address is no longer its owner's.",
                )
            if not left:
                return None
            message_id = left[0].message_id
            if message_id is None:
                ids = [notice.id for notice in left]
                message_id = message_id_of(input.owner_hash, ids, domain=self._sender.domain)
                await digests.begin(connection, ids, message_id)
        return _Batch(message_id=message_id, notices=left)

    async def _send(self, input: SendInput, batch: _Batch) -> None:
        async with self._database.read() as connection:
            # as of now: more may have come since the notice was created
            waiting = await digests.count_waiting(
                connection, (notice.endpoint_id for notice in batch.notices)
            )
        news = [
            News(
                endpoint_id=notice.endpoint_id,
                url=notice.url,
                description=notice.description,
                facts=replace(Facts.parse(notice.facts), held=waiting.get(notice.endpoint_id, 0)),
            )
            for notice in batch.notices
        ]
        at = utc_now()
        links = (
            {}
            if self._links is None
            else {
                notice.endpoint_id: self._links.url(
                    notice.endpoint_id,
                    tenant_id=notice.tenant_id,
                    owner=input.owner_hash,
                    at=at,
                    public_url=self._public_url,
                )
                for notice in batch.notices
            }
        )
        try:
            message = compose(
                input.kind,
                news,
                sender=self._sender,
                to=batch.notices[-1].email,
                message_id=batch.message_id,
                public_url=self._public_url,
                at=at,
                links=links,
                links_until=None if self._links is None else at + self._links.lifetime,
            )
        except ValueError:
            raise AddressRejected("This is not an address that mail can be sent to.") from None
        await self._transport.send(message)


def _later(message: str, *, type: str, after: timedelta | None = None) -> ApplicationError:
    """Return the error after which Temporal tries again, by the retry policy or `after` this time.
    Benign: the transport has logged what is wrong."""
    return ApplicationError(
        message, type=type, next_retry_delay=after, category=ApplicationErrorCategory.BENIGN
    )
