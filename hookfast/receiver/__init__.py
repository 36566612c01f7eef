"""The library for receivers of Hookfast's webhooks: verify them, reject replays, process each once.

It imports no other package of Hookfast and, for the profiles with a shared secret, nothing outside
the standard library. It is published as `hookfast-receiver`, and the server contains it.
"""

from .errors import (
    BodyTooLarge,
    KeysUnavailable,
    LeaseLost,
    MalformedHeader,
    Misconfigured,
    MissingHeader,
    OutsideTolerance,
    ProfileNotAccepted,
    ReceiverError,
    Replayed,
    StoreFull,
    TimestampTooNew,
    TimestampTooOld,
    UnknownKey,
    VerificationError,
    WrongSignature,
)
from .intake import Answer, Intake, Webhook
from .key_directory import WELL_KNOWN_PATH, KeyDirectory
from .keys import KeySet, PublicKeys
from .memory import MemoryStore
from .profiles import ProfileName
from .redis import RedisStore
from .replay import ReplayGuard
from .sql import SqlStore
from .store import Begun, Done, Fresh, IdempotencyStore, InProgress
from .verifier import Verified, Verifier

__all__ = [
    "WELL_KNOWN_PATH",
    "Answer",
    "Begun",
    "BodyTooLarge",
    "Done",
    "Fresh",
    "IdempotencyStore",
    "InProgress",
    "Intake",
    "KeyDirectory",
    "KeySet",
    "KeysUnavailable",
    "LeaseLost",
    "MalformedHeader",
    "MemoryStore",
    "Misconfigured",
    "MissingHeader",
    "OutsideTolerance",
    "ProfileName",
    "ProfileNotAccepted",
    "PublicKeys",
    "ReceiverError",
    "RedisStore",
    "ReplayGuard",
    "Replayed",
    "SqlStore",
    "StoreFull",
    "TimestampTooNew",
    "TimestampTooOld",
    "UnknownKey",
    "VerificationError",
    "Verified",
    "Verifier",
    "Webhook",
    "WrongSignature",
]
