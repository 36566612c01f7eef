"""The errors of the client.

```text
HookfastError
├── ConnectionFailed         no answer came
│   └── TimedOut             no complete answer came in time
├── UnexpectedAnswer         the answer is not from Hookfast
├── JobNotFinished           `jobs.wait` waited long enough
└── ApiError                 Hookfast answered with a problem (RFC 9457)
    ├── Unauthenticated      401
    ├── Forbidden            403
    ├── NotFound             404
    ├── Conflict             409
    ├── TooLarge             413
    ├── InvalidInput         422
    ├── RateLimited          429
    └── Unavailable          502, 503, 504: try again later
```

What cannot be sent at all, such as data that is not JSON, is a ValueError. No error contains the
API key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookfast_client.batch import BatchResult
    from hookfast_client.types import Job


class HookfastError(Exception):
    """Base class of the client's errors."""

    outcome_unknown: bool = False
    """Whether Hookfast may have carried out the request although no success was reported."""

    partial_batch: BatchResult | None = None
    """Set by `emit_batch`: the results of the events before the request that failed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class ConnectionFailed(HookfastError):
    """No answer came. With `outcome_unknown`, the request was sent, and Hookfast may have carried
    it out; otherwise it was not."""

    def __init__(self, message: str, *, outcome_unknown: bool) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class TimedOut(ConnectionFailed):
    """No complete answer came in time."""


class UnexpectedAnswer(HookfastError):
    """The server that answered is not Hookfast's API; check the URL. `status` is the answer's."""

    outcome_unknown = True

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class JobNotFinished(HookfastError):
    """`jobs.wait` waited long enough; the job goes on. `job` is its last known state."""

    def __init__(self, message: str, *, job: Job) -> None:
        super().__init__(message)
        self.job = job


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in the input: a JSON pointer (RFC 6901) into the body, or a parameter's name, and
    what is wrong there."""

    pointer: str
    detail: str


class ApiError(HookfastError):
    """Hookfast answered with a problem. `code` is stable, for programs; `detail` says for people
    what happened and what to do. `errors` has every error in the input, and `request_id` finds the
    request in Hookfast's log. `retry_after` is in seconds, None unless Hookfast said it."""

    def __init__(
        self,
        detail: str,
        *,
        status: int,
        code: str,
        errors: Sequence[FieldError] = (),
        request_id: str | None = None,
        instance: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.code = code
        self.errors = tuple(errors)
        self.request_id = request_id
        self.instance = instance
        self.retry_after = retry_after
        # a commit may have succeeded although the database, or a proxy's service, went away then
        self.outcome_unknown = status >= 500 and code != "overloaded"

    def __str__(self) -> str:
        detail = self.detail
        if [error.detail for error in self.errors] == [detail]:  # not the same words twice
            detail = f"{self.errors[0].pointer or '(the whole body)'}: {detail}"
        else:
            for error in self.errors:
                detail += f"\n  {error.pointer or '(the whole body)'}: {error.detail}"
        text = f"{self.status} {self.code}: {detail}"
        return text if self.request_id is None else f"{text}\n  request id: {self.request_id}"

    @property
    def is_temporary(self) -> bool:
        """Whether the same request is likely to succeed later."""
        return self.status in TEMPORARY

    @classmethod
    def from_problem(
        cls,
        problem: Mapping[str, Any],
        *,
        status: int,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> ApiError:
        """Return the error of a problem document. Members that are missing, or not of Hookfast's
        form, are empty."""
        found = problem.get("errors")
        errors = [
            FieldError(str(error.get("pointer", "")), str(error.get("detail", "")))
            for error in (found if isinstance(found, list) else ())
            if isinstance(error, Mapping)
        ]
        said_id, instance = problem.get("request_id"), problem.get("instance")
        return _CLASSES.get(status, ApiError)(
            str(problem.get("detail", "")),
            status=status,
            code=str(problem.get("code", "")),
            errors=errors,
            request_id=said_id if isinstance(said_id, str) else request_id,
            instance=instance if isinstance(instance, str) else None,
            retry_after=retry_after,
        )


class Unauthenticated(ApiError):
    """The API key is missing, revoked or wrong."""


class Forbidden(ApiError):
    """This API key may not do that."""


class NotFound(ApiError):
    """There is no such object, or this API key may not see it."""


class Conflict(ApiError):
    """The request contradicts the present state, such as an idempotency key that was used for
    another event; `code` says which."""


class TooLarge(ApiError):
    """The body is larger than Hookfast accepts."""


class InvalidInput(ApiError):
    """Hookfast rejected the input; `errors` says where and why."""


class RateLimited(ApiError):
    """Too many requests, or a quota is used up; `retry_after` says for how long."""


class Unavailable(ApiError):
    """Hookfast cannot do it now. The code is `no_service` if it was a proxy in front of Hookfast
    that answered, without a problem document."""


TEMPORARY = frozenset({408, 429, 502, 503, 504})
"""Statuses after which the same request is likely to succeed later."""

_CLASSES: Mapping[int, type[ApiError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: InvalidInput,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def _rebuild(
    kind: type[HookfastError], arguments: tuple[Any, ...], members: dict[str, Any]
) -> HookfastError:
    """Return a copy of an error that crossed the border of a process: pickle would call a class
    without its keywords."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(members)
    return error
