"""The errors of the receiver library.

    ReceiverError
    ├── VerificationError       do not trust this request; answer `status` (401)
    │   ├── MissingHeader       a header that the signature needs is missing
    │   ├── MalformedHeader     a header has a value that Hookfast never sends
    │   ├── ProfileNotAccepted  signed, but under no profile that this receiver accepts
    │   ├── WrongSignature      no signature matches these bytes and your secrets or keys
    │   ├── OutsideTolerance
    │   │   ├── TimestampTooOld
    │   │   └── TimestampTooNew
    │   ├── UnknownKey          signed with a key that is not in the key directory
    │   ├── Replayed            this signed message was accepted before (503: see there)
    │   └── KeysUnavailable     the key directory is unreachable (503: worth sending again)
    ├── BodyTooLarge            the body is over your limit (413)
    ├── StoreFull               a bounded store has no room (503: worth sending again)
    ├── LeaseLost               the work took longer than its lease, and another worker took over
    └── Misconfigured           the receiver's configuration cannot work; also a ValueError

`code` is stable, for programs; the message says what to do, for developers, and may change. No
message contains a secret, an expected signature or a body.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar


class ReceiverError(Exception):
    """The base class. `status` is the HTTP status to answer with, `code` a stable name."""

    code: ClassVar[str] = "receiver_error"
    status: ClassVar[int] = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class VerificationError(ReceiverError):
    """The request is not proven to come from Hookfast. Reject it, and do not use its body."""

    code = "unverified"
    status = 401


class MissingHeader(VerificationError):
    """The header named `header` is missing. Check that no proxy removes it."""

    code = "missing_header"

    def __init__(self, message: str, *, header: str) -> None:
        super().__init__(message)
        self.header = header


class MalformedHeader(VerificationError):
    """The header named `header` has a value that Hookfast cannot have sent."""

    code = "malformed_header"

    def __init__(self, message: str, *, header: str) -> None:
        super().__init__(message)
        self.header = header


class ProfileNotAccepted(VerificationError):
    """The request is signed, but under no profile (or hash) that this receiver accepts."""

    code = "profile_not_accepted"


class WrongSignature(VerificationError):
    """No signature matches: the body is not the bytes that were sent, or the secret is another."""

    code = "wrong_signature"


class OutsideTolerance(VerificationError):
    """The signature is correct, but its time is not; `age` is negative for a future time."""

    code = "outside_tolerance"

    def __init__(self, message: str, *, age: timedelta) -> None:
        super().__init__(message)
        self.age = age


class TimestampTooOld(OutsideTolerance):
    """Signed too long ago: an old request was sent again, or this machine's clock is ahead."""

    code = "timestamp_too_old"


class TimestampTooNew(OutsideTolerance):
    """Signed in the future: this machine's clock is behind."""

    code = "timestamp_too_new"


class UnknownKey(VerificationError):
    """The request names a key that is not in the key directory."""

    code = "unknown_key"


class Replayed(VerificationError):
    """This signed message, with its timestamp or nonce, was accepted before.

    The status is 503 instead of 401, which some retry plans treat as final. `hook` and `rsa` sign
    neither id nor nonce, so another delivery of the same body in the same second looks like a
    replay. Its next attempt has a new signature and passes; a captured request is always rejected.
    """

    code = "replayed"
    status = 503


class KeysUnavailable(VerificationError):
    """The key directory could not be read, so nothing can be verified; Hookfast will send again."""

    code = "keys_unavailable"
    status = 503


class BodyTooLarge(ReceiverError):
    """The body exceeds your limit; nothing was verified."""

    code = "body_too_large"
    status = 413


class StoreFull(ReceiverError):
    """A bounded store is full of messages in progress, which it must not forget."""

    code = "store_full"
    status = 503


class LeaseLost(ReceiverError):
    """The lease expired, and another worker took the message over. Use longer leases."""

    code = "lease_lost"


class Misconfigured(ReceiverError, ValueError):
    """The receiver's configuration cannot work; the message says what to change."""

    code = "misconfigured"
