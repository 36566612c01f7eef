"""Receive webhooks from providers: verify a request, name its event and find its idempotency key.

Pure: no I/O, no storage, no HTTP framework. `provider(name, options)` returns a source's provider.
"""

from hookfast.inbox.errors import (
    RequestRejected,
    TooManyHops,
    UnsupportedContentType,
)
from hookfast.inbox.expression import KeyExpression, compile_expression
from hookfast.inbox.idempotency_key import BusinessKeys, delivery_key
from hookfast.inbox.provider import Answer, Provider
from hookfast.inbox.providers import PROVIDERS, provider
from hookfast.inbox.request import InboundRequest, RequestHeaders

__all__ = [
    "PROVIDERS",
    "Answer",
    "BusinessKeys",
    "InboundRequest",
    "KeyExpression",
    "Provider",
    "RequestHeaders",
    "RequestRejected",
    "TooManyHops",
    "UnsupportedContentType",
    "compile_expression",
    "delivery_key",
    "provider",
]
