"""Why a request is not taken in. The texts hold no secret, no signature and nothing of the body."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hookfast.errors import HookfastError

RefusedCode: TypeAlias = Literal[
    "signature_missing",  # no signature, or not all of what one needs
    "signature_malformed",  # it cannot be what the provider sent: wrong form, or sent twice
    "signature_not_accepted",  # signed, but only in a way that is too weak or not set up here
    "signature_mismatch",  # no secret of the source fits
    "timestamp_malformed",  # the signed time is no number of seconds
    "timestamp_out_of_tolerance",  # rightly signed, but not now
    "secret_missing",  # the source holds no secret that could verify anything
]


class Refused(HookfastError):
    """The request is not proven to come from the provider (HTTP 401). Do nothing with its body."""

    code: RefusedCode

    def __init__(self, code: RefusedCode, detail: str) -> None:
        super().__init__(detail, code=code)


class UnsupportedContentType(HookfastError):
    """The provider never sends bodies of this type (HTTP 415). Nothing was verified."""

    code = "unsupported_content_type"
