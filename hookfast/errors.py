"""Every error Hookfast raises on purpose.

    HookfastError
    ├── InvalidInput      the caller's input is wrong; `errors` says where and what to do
    ├── TooLarge          a body or value is over its limit
    ├── Unauthenticated   no key, or not one of ours
    ├── Forbidden         the key is ours but may not do this
    ├── NotFound          no such thing, or it belongs to another tenant (the answer is the same)
    ├── Conflict          the request disagrees with what is stored
    ├── TooManyRequests   the caller is over a limit; try again later
    ├── Unavailable       something we need is away for now; try again
    └── Misconfigured     a setting cannot work; the message names it

`code` is stable and meant for programs; the message is for people and may change. Messages
never hold a secret or a body.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in the input. `pointer` is an RFC 6901 JSON pointer or a parameter's name."""

    pointer: str
    detail: str


def join_pointer(pointer: str, *parts: str | int) -> str:
    """Append names of members and indexes to a JSON pointer (RFC 6901, section 3)."""
    return "/".join((pointer, *(str(one).replace("~", "~0").replace("/", "~1") for one in parts)))


class HookfastError(Exception):
    """The root of the tree. Catch it to catch everything Hookfast raises on purpose."""

    code = "hookfast_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class InvalidInput(HookfastError):
    """The input is wrong and nothing was stored. Fix what `errors` names and send it again."""

    code = "invalid_input"

    def __init__(
        self, message: str, *, code: str | None = None, errors: tuple[FieldError, ...] = ()
    ) -> None:
        super().__init__(message, code=code)
        self.errors = errors

    @classmethod
    def at(cls, pointer: str, detail: str, *, code: str | None = None) -> InvalidInput:
        """Return an error with one field error, whose detail is also the message."""
        return cls(detail, code=code, errors=(FieldError(pointer, detail),))

    def below(self, pointer: str) -> InvalidInput:
        """Return the same error for an input that is the member at `pointer` of a larger one."""
        errors = (FieldError(pointer + error.pointer, error.detail) for error in self.errors)
        return InvalidInput(self.message, code=self.code, errors=tuple(errors))


class TooLarge(HookfastError):
    """A body is over its limit and nothing was stored. Send less, or raise the setting."""

    code = "too_large"


class Unauthenticated(HookfastError):
    """No usable API key came with the request. Send `Authorization: Bearer hf_…`."""

    code = "unauthenticated"


class Forbidden(HookfastError):
    """The API key is valid but its scope does not allow this. Use a key with a wider scope."""

    code = "forbidden"


class NotFound(HookfastError):
    """The resource does not exist, or belongs to another tenant. Check its id."""

    code = "not_found"


class Conflict(HookfastError):
    """The request disagrees with what is stored, e.g. an idempotency key with another body."""

    code = "conflict"


class TooManyRequests(HookfastError):
    """The caller is over a limit; nothing was done. Retry after `retry_after` seconds."""

    code = "too_many_requests"

    def __init__(self, message: str, *, code: str | None = None, retry_after: int = 5) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class Unavailable(HookfastError):
    """Something Hookfast depends on is away. Nothing is lost; retry in `retry_after` seconds."""

    code = "unavailable"

    def __init__(self, message: str, *, code: str | None = None, retry_after: int = 5) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class Misconfigured(HookfastError):
    """A setting cannot work. The message names the setting and what it should be."""

    code = "misconfigured"
