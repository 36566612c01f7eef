"""Every error the receiving side raises on purpose.

    ReceiverError
    ├── VerificationError       do not trust this request; answer `status` (401)
    │   ├── MissingHeader       a header the signature needs did not come
    │   ├── MalformedHeader     a header came that no sender of ours writes
    │   ├── ProfileNotAccepted  signed, but with nothing this receiver accepts
    │   ├── WrongSignature      no signature fits these bytes and your secrets or keys
    │   ├── OutsideTolerance
    │   │   ├── TimestampTooOld
    │   │   └── TimestampTooNew
    │   ├── UnknownKey          signed with a key that is not in the key directory
    │   ├── Replayed            this signed message was here before (503: see there)
    │   └── KeysUnavailable     the key directory is away (503: worth sending again)
    ├── BodyTooLarge            the body is over your limit (413)
    ├── StoreFull               a bounded store has no room (503: worth sending again)
    ├── LeaseLost               the work took longer than its lease and another took it over
    └── Misconfigured           the receiver was set up in a way that cannot work; also a ValueError

`code` is stable and meant for programs; the message tells a developer what to do and may change.
No message holds a secret, an expected signature or a body.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar


class ReceiverError(Exception):
    """The root. `status` is the HTTP status that fits, `code` a stable name."""

    code: ClassVar[str] = "receiver_error"
    status: ClassVar[int] = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class VerificationError(ReceiverError):
    """The request is not proven to come from Hookfast. Refuse it and do nothing with its body."""

    code = "unverified"
    status = 401


class MissingHeader(VerificationError):
    """A header is missing; `header` names it. Check that no proxy strips it."""

    code = "missing_header"

    def __init__(self, message: str, *, header: str) -> None:
        super().__init__(message)
        self.header = header


class MalformedHeader(VerificationError):
    """A header's value cannot be what Hookfast sent; `header` names it."""

    code = "malformed_header"

    def __init__(self, message: str, *, header: str) -> None:
        super().__init__(message)
        self.header = header


class ProfileNotAccepted(VerificationError):
    """The request carries signatures, none of a profile (or hash) this receiver accepts."""

    code = "profile_not_accepted"


class WrongSignature(VerificationError):
    """No signature fits. Other bytes were verified than were sent, or with another secret."""

    code = "wrong_signature"


class OutsideTolerance(VerificationError):
    """Rightly signed, but not now; `age` is how long ago (negative: in the future)."""

    code = "outside_tolerance"

    def __init__(self, message: str, *, age: timedelta) -> None:
        super().__init__(message)
        self.age = age


class TimestampTooOld(OutsideTolerance):
    """Signed too long ago: an old request sent again, or a clock here that is ahead."""

    code = "timestamp_too_old"


class TimestampTooNew(OutsideTolerance):
    """Signed in the future: a clock here that is behind."""

    code = "timestamp_too_new"


class UnknownKey(VerificationError):
    """The request names a key that the key directory does not hold."""

    code = "unknown_key"


class Replayed(VerificationError):
    """What was signed, with this timestamp or nonce, was accepted before.

    503 and not 401, which some retry plans take for the last word. `hook` and `rsa` sign neither id
    nor nonce: another delivery of the same body, signed in the same second, looks the same. Its
    next attempt is signed anew and passes; a captured request is refused however often it comes.
    """

    code = "replayed"
    status = 503


class KeysUnavailable(VerificationError):
    """The key directory could not be read, so nothing can be said; Hookfast will send again."""

    code = "keys_unavailable"
    status = 503


class BodyTooLarge(ReceiverError):
    """The body is over the limit you set; nothing was verified."""

    code = "body_too_large"
    status = 413


class StoreFull(ReceiverError):
    """A bounded store holds only work under way. Refused, because forgetting would repeat it."""

    code = "store_full"
    status = 503


class LeaseLost(ReceiverError):
    """The lease ran out and another worker began the same message. Give longer leases."""

    code = "lease_lost"


class Misconfigured(ReceiverError, ValueError):
    """The receiver cannot work as it was set up; the message says what to change."""

    code = "misconfigured"
