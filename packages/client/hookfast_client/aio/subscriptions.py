"""Subscribes endpoints to event types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from hookfast_client import call
from hookfast_client.aio.pages import AsyncPages
from hookfast_client.call import path

if TYPE_CHECKING:
    from hookfast_client.aio.client import AsyncHookfast
    from hookfast_client.types import (
        ChangeSubscription,
        ListSubscriptionsQuery,
        NewSubscription,
        Subscription,
    )


class AsyncSubscriptions:
    """The subscriptions: which event types go to which endpoint."""

    def __init__(self, client: AsyncHookfast) -> None:
        self._client = client

    async def create(self, **form: Unpack[NewSubscription]) -> Subscription:
        """Subscribe an endpoint. Not repeated when its answer is lost."""
        return cast("Subscription", await self._client.fetch(call.post("/subscriptions", form)))

    def list(self, **query: Unpack[ListSubscriptionsQuery]) -> AsyncPages[Subscription]:
        """List subscriptions; with `matches`, those that would get an event of this type."""
        return AsyncPages(self._client, "/subscriptions", query)

    async def get(self, subscription_id: str) -> Subscription:
        """Return a subscription. Raises NotFound."""
        request = call.get(path("subscriptions", subscription_id))
        return cast("Subscription", await self._client.fetch(request))

    async def update(
        self, subscription_id: str, **changes: Unpack[ChangeSubscription]
    ) -> Subscription:
        """Change the given settings; None sets one to its default."""
        request = call.patch(path("subscriptions", subscription_id), changes)
        return cast("Subscription", await self._client.fetch(request))

    async def delete(self, subscription_id: str) -> None:
        """Delete a subscription."""
        await self._client.send(call.delete(path("subscriptions", subscription_id)))
