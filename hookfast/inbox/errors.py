"""Errors that reject an inbound request. No message contains a secret, a signature or body text."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hookfast.errors import HookfastError
from hookfast.events.hops import MAX_HOPS

RejectionCode: TypeAlias = Literal[
    "signature_missing",  # no signature, or a header it needs is missing
    "signature_malformed",  # not in the provider's format, or the header is repeated
    "signature_not_accepted",  # signed only in a way that is too weak or not enabled here
    "signature_mismatch",  # no secret of the source matches
    "timestamp_malformed",  # the signed time is not a number of seconds
    "timestamp_out_of_tolerance",  # signed correctly, but too long ago or in the future
    "secret_missing",  # the source has no secret that could verify anything
]


class RequestRejected(HookfastError):
    """The request is not proven to come from the provider (HTTP 401). Do not use its body."""

    code: RejectionCode

    def __init__(self, code: RejectionCode, detail: str) -> None:
        super().__init__(detail, code=code)


class UnsupportedContentType(HookfastError):
    """The request is verified, but the source takes no bodies of this content type (HTTP 415).
    Nothing was stored. If the provider does send it, add it to the source's `content_types`."""

    code = "unsupported_content_type"


class TooManyHops(HookfastError):
    """The request is verified, but has passed sources too often: it is in a loop (HTTP 508). Do not
    send it again; remove the endpoint or the source that closes the loop."""

    code = "too_many_hops"

    def __init__(self, hops: int) -> None:
        super().__init__(
            f"This event has passed {hops - 1} sources before this one, and {MAX_HOPS} in all is "
            "the most: it goes round in a loop. Do not send it again; remove the endpoint that "
            "sends it back, or subscribe it to fewer event types. (An X-Hook-Hops that is not a "
            f"decimal number counts as {MAX_HOPS}.)"
        )
        self.hops = hops
