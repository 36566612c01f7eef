"""The endpoint and the subscription in a page's path, as parameters of the page."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from api.access.authentication import Reader
from api.context.context import AppContext
from api.forms.endpoint import EndpointView
from api.http.fields import EndpointPath, SubscriptionPath
from api.routes.endpoints import get_endpoint
from api.routes.subscriptions import SubscriptionView, get_subscription
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
