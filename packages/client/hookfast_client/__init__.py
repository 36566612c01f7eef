"""A client for Hookfast: emit events, and control their deliveries.

    from hookfast_client import Hookfast

    with Hookfast("https://hooks.example.com", api_key) as hookfast:
        hookfast.events.emit("order.invoice.paid", {"invoice_id": "in_8Tx2"}, tenant_id=tenant)

`AsyncHookfast` is the same for asyncio.
"""

from hookfast_client.aio.client import AsyncHookfast
from hookfast_client.batch import BatchItem, BatchResult, EmittedEvent, NewEvent
from hookfast_client.errors import (
    ApiError,
    Conflict,
    ConnectionFailed,
    FieldError,
    Forbidden,
    HookfastError,
    InvalidInput,
    JobNotFinished,
    NotFound,
    RateLimited,
    TimedOut,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
)
from hookfast_client.sync.client import Hookfast

__all__ = [
    "ApiError",
    "AsyncHookfast",
    "BatchItem",
    "BatchResult",
    "Conflict",
    "ConnectionFailed",
    "EmittedEvent",
    "FieldError",
    "Forbidden",
    "Hookfast",
    "HookfastError",
    "InvalidInput",
    "JobNotFinished",
    "NewEvent",
    "NotFound",
    "RateLimited",
    "TimedOut",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
]
