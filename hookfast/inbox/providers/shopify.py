"""Shopify: X-Shopify-Hmac-Sha256, an HMAC over the body in base64.

https://shopify.dev/docs/apps/build/webhooks/subscribe/https
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hookfast.inbox.hmac_check import decoded, keys_of, require_match, signature
from hookfast.inbox.naming import folded
from hookfast.inbox.provider import Provider, Sample, Unsigned, usable_id
from hookfast.inbox.received import Received
from hookfast.strict_json.parser import JsonValue

_HEADER = "X-Shopify-Hmac-Sha256"


class Shopify(Provider):
    """App and shop webhooks in JSON. The secret is the app's client secret, or the one the shop's
    notification settings show."""

    name = "shopify"
    suggested_keys: ClassVar = {
        "shopify.*.update": "[admin_graphql_api_id, updated_at]",
        "shopify.*.updated": "[admin_graphql_api_id, updated_at]",
        "shopify.orders.*": "[admin_graphql_api_id, updated_at]",
        "shopify.*.create": "admin_graphql_api_id",
    }

    def verify(self, received: Received, *, secrets: Sequence[str], now: datetime) -> None:
        keys = keys_of(secrets)
        text = received.headers.required(_HEADER)
        require_match([decoded(text, header=_HEADER, encoding="base64")], keys, received.body)

    def delivery_id(self, received: Received, payload: JsonValue) -> str | None:
        """The event's id and its topic: one action of a merchant can set off several topics under
        one event id. X-Shopify-Webhook-Id where there is no event id."""
        only = received.headers.only
        event, topic = only("X-Shopify-Event-Id"), only("X-Shopify-Topic")
        if event is None or topic is None:
            return usable_id(only("X-Shopify-Webhook-Id"))
        return usable_id(f"{event}/{topic}")

    def event_type(self, received: Received, payload: JsonValue) -> str:
        """X-Shopify-Topic in Shopify's own words: `orders/create` is `shopify.orders.create`."""
        return folded("shopify", received.headers.only("X-Shopify-Topic"))

    def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
        return {_HEADER: signature(secret, unsigned.body, encoding="base64")}

    samples: ClassVar = {
        "orders.create": Sample(
            headers={
                "X-Shopify-Topic": "orders/create",
                "X-Shopify-Shop-Domain": "acme.myshopify.com",
                "X-Shopify-API-Version": "2026-10",
                "X-Shopify-Event-Id": "{id}",
                "X-Shopify-Webhook-Id": "{id}",
            },
            payload={
                "id": 5620100042,
                "admin_graphql_api_id": "gid://shopify/Order/5620100042",
                "name": "#1042",
                "created_at": "{time}",
                "updated_at": "{time}",
                "currency": "EUR",
                "total_price": "42.50",
                "financial_status": "paid",
                "customer": {"id": 7001, "email": "ada@acme.example"},
                "line_items": [
                    {"id": 1, "sku": "MUG-01", "title": "Mug", "quantity": 2, "price": "21.25"}
                ],
            },
        ),
        "app.uninstalled": Sample(
            headers={
                "X-Shopify-Topic": "app/uninstalled",
                "X-Shopify-Shop-Domain": "acme.myshopify.com",
                "X-Shopify-API-Version": "2026-10",
                "X-Shopify-Event-Id": "{id}",
                "X-Shopify-Webhook-Id": "{id}",
            },
            payload={
                "id": 548380009,
                "name": "Acme",
                "domain": "acme.example",
                "myshopify_domain": "acme.myshopify.com",
                "updated_at": "{time}",
            },
        ),
    }
