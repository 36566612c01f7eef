"""Receiving: what a provider's request must prove, what it is called, what makes it the same again.

Pure: no I/O, no storage, no HTTP framework. `provider(name, options)` gives what a source needs.
"""

from hookfast.inbox.expression import Expression, compile_expression
from hookfast.inbox.idempotency_key import BusinessKeys, delivery_key
from hookfast.inbox.provider import Answer, Provider
from hookfast.inbox.providers import PROVIDERS, provider
from hookfast.inbox.received import Received, RequestHeaders
from hookfast.inbox.refused import Refused, UnsupportedContentType

__all__ = [
    "PROVIDERS",
    "Answer",
    "BusinessKeys",
    "Expression",
    "Provider",
    "Received",
    "Refused",
    "RequestHeaders",
    "UnsupportedContentType",
    "compile_expression",
    "delivery_key",
    "provider",
]
