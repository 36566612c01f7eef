"""The command line's connection to the API: the Python client, whose errors become sentences for a
person at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import quote

import httpx2

from hookfast.errors import HookfastError
from hookfast.strict_json.text import from_text, to_text
from hookfast.version import VERSION
from hookfast_client import ApiError, ConnectionFailed, Hookfast, TimedOut, UnexpectedAnswer, call
from hookfast_client.answer import NO_SERVICE, parse_answer
from hookfast_client.call import Call
from hookfast_client.retry import backoff
from hookfast_client.url import is_local, trusted

MAX_PAGE = 200
"""Maximum rows of one page of a list."""
_SECONDS = 60.0
_RETRIES = 5

Query = Mapping[str, str | int | None]


class Unreachable(HookfastError):
    """No response came. Unless the connection failed, the request may have been carried out."""

    code = "unreachable"


class NotHookfast(HookfastError):
    """The server that responded is not Hookfast's API. Check HOOKFAST_URL."""

    code = "not_hookfast"


class ApiProblem(HookfastError):
    """The API answered with a problem (RFC 9457), whose details are those of `problem`."""

    def __init__(self, message: str, problem: ApiError) -> None:
        super().__init__(message, code=problem.code)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A successful response: its exact text, and `value`, the JSON parsed from it."""

    text: str
    value: Any
    headers: Mapping[str, str]


class _Object(dict[str, Any]):
    """A JSON object of a response. Raises NotHookfast for a missing member: the server is another
    version, or not Hookfast."""

    __slots__ = ("_url",)

    def __init__(self, members: dict[str, Any], *, url: str) -> None:
        super().__init__(members)
        self._url = url

    def __missing__(self, name: str) -> Any:
        raise NotHookfast(
            f"{self._url} answered without {name!r}, which Hookfast {VERSION} has there. "
            "Is HOOKFAST_URL right, and is the service of this version?"
        )


class Api:
    """Calls `/v1` of the Hookfast at `url`, once: a person decides whether to try again, except
    with `repeating`. `key_origin` says where the key came from, for the error message when the API
    denies access. All methods raise ApiProblem, Unreachable or NotHookfast; the errors of `client`
    become those inside `explained`."""

    def __init__(self, url: str, *, key: str, key_origin: str) -> None:
        try:
            self.client = Hookfast(
                url, key, timeout=_SECONDS, attempt_timeout=_SECONDS, max_retries=0
            )
        except ValueError as error:
            raise NotHookfast(str(error)) from None
        self._headers = {"Authorization": f"Bearer {key}", "User-Agent": f"hookfast/{VERSION}"}
        self._key_origin = key_origin

    @property
    def url(self) -> str:
        """The base URL, without `/v1`."""
        return self.client.url

    def repeating(self) -> Self:
        """Return this connection, with which a request that is safe to repeat is sent again after
        temporary errors."""
        other = copy(self)
        other.client = self.client.with_options(
            timeout=_SECONDS * (_RETRIES + 1), max_retries=_RETRIES
        )
        return other

    def streaming(self, *, silence_seconds: float) -> httpx2.AsyncClient:
        """Return an asyncio client for the same API, for responses that do not end. It gives up on
        a response after `silence_seconds` without data."""
        return httpx2.AsyncClient(
            base_url=f"{self.url}/v1",
            headers=self._headers,
            timeout=httpx2.Timeout(silence_seconds, connect=10.0),
            trust_env=not is_local(self.url),
            verify=trusted(self.url),
        )

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def get(self, path: str, query: Query | None = None) -> ApiResponse:
        """GET `/v1{path}`."""
        return self.send(call.get(path, query))

    def post(self, path: str, body: object = None) -> ApiResponse:
        """POST a JSON value."""
        return self._build_and_send(call.post, path, body)

    def put(self, path: str, body: object) -> ApiResponse:
        """PUT a JSON value."""
        return self._build_and_send(call.put, path, body)

    def patch(self, path: str, body: object) -> ApiResponse:
        """PATCH with a JSON merge patch (RFC 7396)."""
        return self._build_and_send(call.patch, path, body)

    def delete(self, path: str) -> None:
        """DELETE `/v1{path}`."""
        self.send(call.delete(path))

    def pages(self, path: str, query: Query, *, limit: int) -> Iterator[ApiResponse]:
        """Yield the pages of a list that have its first `limit` rows."""
        cursor: str | None = None
        while limit > 0:
            page = self.get(path, {**query, "limit": min(limit, MAX_PAGE), "cursor": cursor})
            yield page
            limit -= len(page.value["data"])
            cursor = page.value["next_cursor"]
            if cursor is None:
                return

    def send(self, request: Call) -> ApiResponse:
        """Send a call of the client."""
        with self.explained():
            response = self.client.send(request)
        value = from_text(response.content, object_hook=self._object) if response.content else None
        return ApiResponse(response.text, value, response.headers)

    def _build_and_send(self, build: Callable[..., Call], path: str, body: object) -> ApiResponse:
        with self.explained():
            request = build(path, None)
            if body is not None:  # with its numbers as they were written
                request = replace(request, body=to_text(body).encode())
        return self.send(request)

    def check(self, response: httpx2.Response) -> None:
        """Raise the error that a complete response is, unless it is a success."""
        with self.explained():
            parse_answer(response.status_code, response.headers, response.content, url=self.url)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise the client's errors as those of the command line."""
        try:
            yield
        except ApiError as error:
            if error.code == NO_SERVICE:
                raise Unreachable(f"{error.detail} Is HOOKFAST_URL right?") from None
            raise ApiProblem(self._problem_sentences(error), error) from None
        except UnexpectedAnswer as error:
            text = str(error).removesuffix("Is the URL right?").rstrip()
            raise NotHookfast(f"{text} Is HOOKFAST_URL right?") from None
        except ConnectionFailed as error:
            started = error.outcome_unknown or isinstance(error, TimedOut)
            raise Unreachable(str(error) if started else self._how_to_start(error)) from None
        except ValueError as error:
            raise NotHookfast(f"This cannot be sent to {self.url}: {error}.") from None

    def _object(self, members: dict[str, Any]) -> _Object:
        return _Object(members, url=self.url)

    def _how_to_start(self, error: ConnectionFailed) -> str:
        if is_local(self.url):
            return f"{error} Start it with `hookfast up`, or set HOOKFAST_URL to where it runs."
        return f"{error} Check HOOKFAST_URL."

    def _problem_sentences(self, error: ApiError) -> str:
        text = problem_sentences(error)
        if error.status == 401:
            text += f"\nThe key that was sent is from {self._key_origin}."
        return text if error.instance is None else f"{text}\n{error.instance}"


def pause_after(error: HookfastError | None, *, failures: int) -> float:
    """Return the seconds to wait before a request is sent again, after this many failures before
    `error`. Raises `error` if it is an answer of the API that would be the same again."""
    pause = backoff(failures)
    if not isinstance(error, ApiProblem):
        return pause
    if not error.problem.is_temporary:
        raise error
    return max(pause, error.problem.retry_after or 0.0)


def path_of(*parts: str) -> str:
    """Return a path of these parts, each quoted so that no part can become several."""
    return "".join(f"/{quote(part, safe='') or '-'}" for part in parts)


def problem_sentences(problem: ApiError) -> str:
    """Return a problem as lines of text: its detail, then each error with its place. A single error
    that only repeats the detail is not printed twice."""
    detail, found = problem.detail, problem.errors
    if [error.detail for error in found] == [detail]:
        pointer = found[0].pointer
        return f"{pointer}: {detail}" if pointer else detail
    wrong = [f"  {error.pointer or '(the whole body)'}: {error.detail}" for error in found]
    return "\n".join([detail, *wrong])
