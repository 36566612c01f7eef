"""The HTTP client of the command line, which turns errors into sentences."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2

from hookfast.errors import FieldError, HookfastError
from hookfast.version import VERSION

MAX_PAGE = 200
"""Maximum rows of one page of a list."""
_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
_FROM_A_PROXY = frozenset({502, 503, 504})
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")

Query = Mapping[str, str | int | None]


class Unreachable(HookfastError):
    """No response came. Unless the connection failed, the request may have been carried out."""

    code = "unreachable"


class NotHookfast(HookfastError):
    """The server that responded is not Hookfast's API. Check HOOKFAST_URL."""

    code = "not_hookfast"


class ApiProblem(HookfastError):
    """The API answered with a problem (RFC 9457): `status`, `code`, and one of `errors` per fault.
    `retry_after` is in seconds, and None unless the API said when to try again."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        errors: tuple[FieldError, ...] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.errors = errors
        self.retry_after = retry_after

    @property
    def is_temporary(self) -> bool:
        """Whether the same request is likely to succeed later."""
        return self.status in (429, 502, 503, 504)


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
    """A client for `/v1` of the Hookfast at `url`. `key_origin` says where the key came from, for
    the error message when the API denies access."""

    def __init__(self, url: str, *, key: str, key_origin: str) -> None:
        self._url = _checked_url(url)
        self._key_origin = key_origin
        self._headers = {"Authorization": f"Bearer {key}", "User-Agent": f"hookfast/{VERSION}"}
        self._client = httpx2.Client(
            base_url=f"{self._url}/v1",
            headers=self._headers,
            timeout=_TIMEOUT,
            trust_env=not is_local(self._url),  # a proxy does not know this machine
            verify=_trusted(self._url),
        )

    @property
    def url(self) -> str:
        """The base URL, without `/v1`."""
        return self._url

    def streaming(self, *, silence_seconds: float) -> httpx2.AsyncClient:
        """Return an asyncio client for the same API, for responses that do not end. It gives up on
        a response after `silence_seconds` without data."""
        return httpx2.AsyncClient(
            base_url=f"{self._url}/v1",
            headers=self._headers,
            timeout=httpx2.Timeout(silence_seconds, connect=10.0),
            trust_env=not is_local(self._url),
            verify=_trusted(self._url),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, query: Query | None = None) -> ApiResponse:
        """GET `/v1{path}`. Like the other methods, it raises ApiProblem, Unreachable or
        NotHookfast."""
        return self._send("GET", path, query=query)

    def post(
        self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> ApiResponse:
        """POST `body`: bytes to send unchanged, or a JSON value."""
        return self._send("POST", path, body=body, headers=headers)

    def put(self, path: str, body: object) -> ApiResponse:
        """PUT a JSON value."""
        return self._send("PUT", path, body=body)

    def patch(self, path: str, body: object) -> ApiResponse:
        """PATCH with a JSON merge patch (RFC 7396)."""
        return self._send("PATCH", path, body=body)

    def delete(self, path: str) -> None:
        """DELETE `/v1{path}`."""
        self._send("DELETE", path)

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

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiResponse:
        content = body if isinstance(body, bytes) else None
        if content is None and body is not None:
            content = json.dumps(body).encode()
        types = {} if content is None else {"Content-Type": "application/json"}
        try:
            response = self._client.request(
                method,
                path,
                params={name: value for name, value in (query or {}).items() if value is not None},
                content=content,
                headers={**types, **(headers or {})},
            )
        except (httpx2.InvalidURL, httpx2.LocalProtocolError) as error:
            raise NotHookfast(f"This cannot be sent to {self._url}: {error}.") from None
        except httpx2.ConnectError as error:
            raise Unreachable(self._how_to_start(error)) from None
        except httpx2.TimeoutException:
            raise Unreachable(f"{self._url} did not answer in time.") from None
        except httpx2.TransportError as error:
            raise Unreachable(
                f"The connection to {self._url} failed: {error_text(error)}."
            ) from None
        return self.check(response)

    def check(self, response: httpx2.Response) -> ApiResponse:
        """Return a complete response. Raises ApiProblem, NotHookfast, or Unreachable when a proxy
        answered instead of Hookfast."""
        try:
            value = response.json(object_hook=self._object) if response.content else None
        except (ValueError, RecursionError):
            value = None
        if response.is_success and (isinstance(value, dict) or response.status_code == 204):
            return ApiResponse(response.text, value, response.headers)
        if isinstance(value, dict) and isinstance(value.get("detail"), str):
            raise _problem(response, value, key_origin=self._key_origin)
        # a proxy answers with a page of its own while there is no Hookfast behind it
        kind = Unreachable if response.status_code in _FROM_A_PROXY else NotHookfast
        raise kind(
            f"{self._url} answered {response.status_code} {response.reason_phrase}, "
            "not as Hookfast does. Is HOOKFAST_URL right?"
        )

    def _object(self, members: dict[str, Any]) -> _Object:
        return _Object(members, url=self._url)

    def _how_to_start(self, error: httpx2.ConnectError) -> str:
        text = f"There is no Hookfast at {self._url} ({error})."
        if is_local(self._url):
            return f"{text} Start it with `hookfast up`, or set HOOKFAST_URL to where it runs."
        return f"{text} Check HOOKFAST_URL."


def path_of(*parts: str) -> str:
    """Return a path of these parts, each quoted so that no part can become several."""
    return "".join(f"/{quote(part, safe='') or '-'}" for part in parts)


def problem_sentences(detail: str, errors: Iterable[FieldError]) -> str:
    """Return a problem as lines of text: its detail, then each error with its place. A single error
    that only repeats the detail is not printed twice."""
    found = list(errors)
    if [error.detail for error in found] == [detail]:
        pointer = found[0].pointer
        return f"{pointer}: {detail}" if pointer else detail
    wrong = [f"  {error.pointer or '(the whole body)'}: {error.detail}" for error in found]
    return "\n".join([detail, *wrong])


def field_errors(problem: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """Return the `errors` of a problem document, without members that do not have Hookfast's
    form."""
    errors = problem.get("errors")
    return tuple(
        FieldError(str(error.get("pointer", "")), str(error.get("detail", "")))
        for error in (errors if isinstance(errors, list) else ())
        if isinstance(error, dict)
    )


def _problem(
    response: httpx2.Response, problem: Mapping[str, Any], *, key_origin: str
) -> ApiProblem:
    errors = field_errors(problem)
    message = problem_sentences(problem["detail"], errors)
    if response.status_code == 401:
        message += f"\nThe key that was sent is from {key_origin}."
    if problem.get("instance"):
        message += f"\n{problem['instance']}"
    after = response.headers.get("retry-after", "")
    return ApiProblem(
        message,
        status=response.status_code,
        code=str(problem.get("code", "")),
        errors=errors,
        retry_after=int(after) if after.isdecimal() else None,
    )


def _checked_url(url: str) -> str:
    """Return the URL without a final `/v1`. Raises NotHookfast if it is not a valid URL."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        httpx2.URL(url)
        (parts.hostname or "").encode("idna")  # UnicodeError for a name that no lookup accepts
    except (ValueError, httpx2.InvalidURL):
        valid = False
    if not valid or parts.query or parts.fragment:
        raise NotHookfast(f"{url!r} is not the URL of a Hookfast, like https://hooks.example.com.")
    if "@" in parts.netloc:  # it would replace the key, and error messages would show it
        raise NotHookfast("The URL must not have a user or a password; the API key is enough.")
    return url.rstrip("/").removesuffix("/v1")


def _trusted(url: str) -> ssl.SSLContext | bool:
    """Return the certificate authorities that a client for this URL trusts: none for HTTP on this
    machine, because reading the usual ones takes 40 ms."""
    if is_local(url) and urlsplit(url).scheme == "http":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return True


def is_local(url: str) -> bool:
    """Whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def error_text(error: Exception) -> str:
    """Return a connection error's text for use within a sentence; the words of its class
    (`read error`) when it has no text, as with some of httpx2's."""
    text = str(error).strip().rstrip(".")
    return text or _WORD_START.sub(" ", type(error).__name__).lower()
