"""The endpoint and the subscription in a page's path, as parameters of the page."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from api.access.audit import Audit
from api.access.authentication import Reader, Writer
from api.context.context import AppContext
from api.forms.endpoint import EndpointView
from api.http.fields import EndpointPath, SubscriptionPath
from api.routes.endpoints import get_endpoint
from api.routes.subscriptions import SubscriptionView, delete_subscription, get_subscription
from hookfast.errors import NotFound

StoredEndpoint = Annotated[EndpointView, Depends(get_endpoint)]


async def _subscription_of_endpoint(
    endpoint_id: EndpointPath,
    subscription_id: SubscriptionPath,
    context: AppContext,
    principal: Reader,
) -> SubscriptionView:
    """Return the endpoint's subscription. Raises NotFound for another endpoint's: a session about
    one endpoint must not reach others through this path."""
    subscription = await get_subscription(subscription_id, context, principal)
    if subscription.endpoint_id != endpoint_id:
        raise NotFound("The endpoint has no such subscription.")
    return subscription


OwnSubscription = Annotated[SubscriptionView, Depends(_subscription_of_endpoint)]


async def delete_own_subscription(
    subscription: OwnSubscription, context: AppContext, audit: Audit, principal: Writer
) -> None:
    """Delete the subscription in the path."""
    await delete_subscription(subscription.id, context, audit, principal)
