"""Shopify: X-Shopify-Hmac-Sha256, an HMAC over the body in base64.

https://shopify.dev/docs/apps/build/webhooks/subscribe/https
"""

from __future__ import annotations

from typing import ClassVar

from hookfast.inbox.body_hmac import BodyHmac
from hookfast.inbox.naming import event_type_from
from hookfast.inbox.provider import usable_id
from hookfast.inbox.request import InboundRequest
from hookfast.strict_json.parser import JsonValue


class Shopify(BodyHmac):
    """App and shop webhooks in JSON. The secret is the app's client secret, or the one the shop's
    notification settings show."""

    name = "shopify"
    signature_header = "X-Shopify-Hmac-Sha256"
    encoding = "base64"
    suggested_keys: ClassVar = {
        "shopify.*.update": "[admin_graphql_api_id, updated_at]",
        "shopify.*.updated": "[admin_graphql_api_id, updated_at]",
        "shopify.orders.*": "[admin_graphql_api_id, updated_at]",
        "shopify.*.create": "admin_graphql_api_id",
    }

    def delivery_id(self, request: InboundRequest, payload: JsonValue) -> str | None:
        """The event's id and its topic: one action of a merchant can set off several topics under
        one event id. X-Shopify-Webhook-Id where there is no event id."""
        only = request.headers.only
        event, topic = only("X-Shopify-Event-Id"), only("X-Shopify-Topic")
        if event is None or topic is None:
            return usable_id(only("X-Shopify-Webhook-Id"))
        return usable_id(f"{event}/{topic}")

    def event_type(self, request: InboundRequest, payload: JsonValue) -> str:
        """X-Shopify-Topic in Shopify's own words: `orders/create` is `shopify.orders.create`."""
        return event_type_from("shopify", request.headers.only("X-Shopify-Topic"))
