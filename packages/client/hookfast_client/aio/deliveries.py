"""Lists deliveries and acts on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack, cast, overload

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.call import path
from hookfast_client.errors import Conflict

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import (
        AcceptedAction,
        Delivery,
        DeliveryActionForm,
        DeliveryDetail,
        DryRun,
        Job,
        ListDeliveriesQuery,
    )


class AsyncDeliveries:
    """The deliveries: one for each event and subscription."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    def list(self, **query: Unpack[ListDeliveriesQuery]) -> AsyncPages[Delivery]:
        """List deliveries, newest first."""
        return AsyncPages(self._client, "/deliveries", query)

    async def get(self, delivery_id: str) -> DeliveryDetail:
        """Return a delivery with its attempts. Raises NotFound."""
        request = call.get(path("deliveries", delivery_id))
        return cast("DeliveryDetail", await self._client.fetch(request))

    async def pause(self, delivery_id: str) -> AcceptedAction:
        """Make no attempt until the delivery is resumed."""
        return await self._act(delivery_id, "pause", repeatable=True)

    async def resume(self, delivery_id: str) -> AcceptedAction:
        """End a pause."""
        return await self._act(delivery_id, "resume", repeatable=True)

    async def resend(self, delivery_id: str) -> AcceptedAction:
        """Make an attempt now. Not repeated when its answer is lost, because each resend makes an
        attempt."""
        return await self._act(delivery_id, "resend", repeatable=False)

    async def cancel(self, delivery_id: str) -> AcceptedAction:
        """Make no more attempts. Raises Conflict if the delivery has ended already."""
        try:
            return await self._act(delivery_id, "cancel", repeatable=True)
        except Conflict as error:
            # an earlier attempt, whose answer was lost, may have cancelled it
            if error.outcome_unknown:
                delivery = await self.get(delivery_id)
                if delivery["status"] == "cancelled":
                    return {"id": delivery_id, "action": "cancel"}
            raise

    @overload
    async def act(
        self, *, dry_run: Literal[True], **form: Unpack[DeliveryActionForm]
    ) -> DryRun: ...
    @overload
    async def act(
        self, *, dry_run: Literal[False] = False, **form: Unpack[DeliveryActionForm]
    ) -> Job: ...
    async def act(
        self, *, dry_run: bool = False, **form: Unpack[DeliveryActionForm]
    ) -> DryRun | Job:
        """Act on all deliveries that a filter selects, in a job (see `jobs.wait`); or only count
        them. Not repeated when the answer is lost, unless it only counts."""
        request = call.post_job("/deliveries/actions", form, dry_run=dry_run)
        return cast("DryRun | Job", await self._client.fetch(request))

    async def _act(self, delivery_id: str, action: str, *, repeatable: bool) -> AcceptedAction:
        request = call.post(path("deliveries", delivery_id, action), repeatable=repeatable)
        return cast("AcceptedAction", await self._client.fetch(request))
