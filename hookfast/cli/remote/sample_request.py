"""One POST as a provider makes it: no API key, no redirect followed, whatever comes back kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2

from hookfast.cli.remote.client import Unreachable, is_local
from hookfast.cli.remote.connection_failure import reason

_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_ANSWER_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a server answered; of a long body the start. `ids` are the headers in which a source
    says what became of a request whose provider wants to hear something else in the body."""

    status: int
    reason: str
    text: str
    location: str | None
    ids: Mapping[str, str]
    milliseconds: float

    @property
    def is_success(self) -> bool:
        """2xx, as providers have it."""
        return 200 <= self.status < 300


def post(
    url: str, *, headers: Mapping[str, str], body: bytes, answer_seconds: float = 30.0
) -> Answered:
    """POST these bytes. Raises Unreachable where no answer came, or it went on coming for longer
    than `answer_seconds`."""
    body_read = bytearray()
    began = time.perf_counter()
    try:
        with (
            httpx2.Client(timeout=_TIMEOUT, trust_env=not is_local(url)) as client,
            client.stream("POST", url, headers=dict(headers), content=body) as response,
        ):
            for chunk in response.iter_bytes():
                body_read += chunk
                if len(body_read) >= _ANSWER_BYTES:
                    break
                if time.perf_counter() - began > answer_seconds:
                    raise Unreachable(f"{url} did not come to the end of its answer in time.")
    except httpx2.ConnectError as error:
        raise Unreachable(f"Nothing answers at {url} ({error}). Is it started?") from None
    except httpx2.TimeoutException:
        raise Unreachable(f"{url} did not answer in time.") from None
    except httpx2.LocalProtocolError:
        # without its text, which quotes the header: GitLab's token is one
        raise Unreachable(f"This cannot be sent to {url}: HTTP does not allow a header.") from None
    except (httpx2.TransportError, httpx2.DecodingError) as error:
        raise Unreachable(f"The connection to {url} failed: {reason(error)}.") from None
    except (httpx2.InvalidURL, ValueError) as error:
        raise Unreachable(f"This cannot be sent to {url}: {error}.") from None
    return Answered(
        status=response.status_code,
        reason=response.reason_phrase,
        text=bytes(body_read[:_ANSWER_BYTES]).decode(errors="replace").strip(),
        ids={
            name: response.headers[name]
            for name in ("X-Hookfast-Inbox-Id", "X-Hookfast-Event-Id")
            if name in response.headers
        },
        location=response.headers.get("location"),
        milliseconds=(time.perf_counter() - began) * 1000,
    )
