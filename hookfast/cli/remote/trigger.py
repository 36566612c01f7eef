"""`hookfast trigger NAME`: what a provider would send, signed, to a source or a server under
development; and a test with the same data to an endpoint."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import typer

from hookfast.cli.remote.client import Unreachable, is_local, path_of, reason
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import plain, say, short, show_facts, show_table
from hookfast.clock import utc_now
from hookfast.errors import InvalidInput, Misconfigured
from hookfast.inbox import Provider, provider
from hookfast.inbox.samples import (
    SAMPLE_NAMES,
    SignedSample,
    provider_of_sample,
    sample,
    type_of_sample,
)

SECRET_VARIABLE = "HOOKFAST_TRIGGER_SECRET"  # noqa: S105 - where it is, not what it is
_SHOWN_BODY = 400
_HIDDEN = "•••"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How often to send, and what signs. `same_id`: the same request each time."""

    secret_file: Path | None
    count: int
    same_id: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Receiver:
    """Who gets the sample: `url` is where it is sent, `signed_url` what the provider would have
    called (Twilio signs it)."""

    provider: Provider
    url: str
    signed_url: str
    is_source: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Secret:
    """What signs, and where it was found."""

    text: str = field(repr=False)
    origin: str


def list_samples(remote: Remote) -> None:
    """Show every sample there is, and the event type it becomes."""
    rows = [(name, type_of_sample(name)) for name in SAMPLE_NAMES]
    if remote.as_json:
        typer.echo(json.dumps([{"name": name, "event_type": type_} for name, type_ in rows]))
        return
    show_table(
        ("name", "becomes"),
        [(name, type_ or "what the source's options say") for name, type_ in rows],
        nothing="There are no samples.",
    )


def to_source(remote: Remote, name: str, source_id: str, *, sending: Sending) -> None:
    """Send the sample to a source of this Hookfast's."""
    source = remote.api.get(path_of("sources", source_id)).value
    path = f"/in/{source['id']}"
    called = f"{remote.api.url}{path}"
    _send(
        remote,
        name,
        _Receiver(
            provider=provider(source["provider"], source["options"]),
            url=called,
            # behind a public URL that is what it verifies, however it was reached
            signed_url=called if is_local(source["url"]) else source["url"],
            is_source=True,
        ),
        sending,
    )


def to_url(remote: Remote, name: str, url: str, *, options: str | None, sending: Sending) -> None:
    """Send the sample to a server. No key is needed, and no Hookfast."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable:
        raise typer.BadParameter(
            "it is not a URL like http://localhost:3000/hooks", param_hint="--to"
        )
    bound = provider(provider_of_sample(name), _options(options))
    receiver = _Receiver(provider=bound, url=url, signed_url=url, is_source=False)
    _send(remote, name, receiver, sending)


def to_endpoint(remote: Remote, name: str, endpoint_id: str, *, count: int) -> None:
    """Have Hookfast send a test of the sample's event type to an endpoint."""
    event_type = type_of_sample(name)
    if event_type is None:
        raise InvalidInput.at(
            "NAME", f"what {name} is called depends on its source; `endpoints test` takes a type"
        )
    failed = False
    for _ in range(count):
        answer = remote.api.post(path_of("endpoints", endpoint_id, "test"), {"type": event_type})
        found = answer.value
        failed = failed or not found["succeeded"]
        if remote.as_json:
            remote.print_json(answer)
            continue
        show_facts(
            {
                "event type": event_type,
                "message id": found["message_id"],
                "result": found["result"],
                "status": None if found["status_code"] is None else str(found["status_code"]),
                "error": found["error"],
                "took": f"{found['duration_ms']:.0f} ms",
                "answer": found["response_excerpt"] or None,
            }
        )
    if failed:
        raise typer.Exit(1)


def _send(remote: Remote, name: str, receiver: _Receiver, sending: Sending) -> None:
    signed: SignedSample | None = None
    secret = _secret(sending.secret_file)
    failed = False
    for _ in range(sending.count):
        if signed is None or not sending.same_id:
            signed = sample(
                name,
                provider=receiver.provider,
                secret=secret.text,
                now=utc_now(),
                url=receiver.signed_url,
            )
        shown = _without(secret.text, signed.headers)
        if not remote.as_json:
            _show_request(receiver.url, shown, signed.body)
        answer = post(receiver.url, headers=signed.headers, body=signed.body)
        failed = failed or not answer.is_success
        if remote.as_json:
            _print_json(receiver.url, shown, signed.body, answer)
        else:
            _show_answer(answer)
        if not answer.is_success and (advice := _advice(answer, receiver, secret)) is not None:
            say(advice)
    if failed:
        raise typer.Exit(1)


def _show_request(url: str, headers: Mapping[str, str], body: bytes) -> None:
    show_facts({"POST": url, **headers})
    typer.echo(f"  {short(body.decode(), _SHOWN_BODY)}")


def _show_answer(answer: Answered) -> None:
    typer.echo(f"→ {answer.status} {plain(answer.reason)} in {answer.milliseconds:.0f} ms")
    if answer.text:
        typer.echo(f"  {short(plain(answer.text), _SHOWN_BODY)}")
    for name, value in answer.ids.items():
        typer.echo(f"  {name}: {plain(value)}")
    typer.echo()


def _print_json(url: str, headers: Mapping[str, str], body: bytes, answer: Answered) -> None:
    """One line for each request."""
    document = {
        "request": {"url": url, "headers": dict(headers), "body": body.decode()},
        "status": answer.status,
        "duration_ms": round(answer.milliseconds, 3),
        "answer": answer.text,
        "ids": dict(answer.ids),
    }
    typer.echo(json.dumps(document, ensure_ascii=False))


def _advice(answer: Answered, receiver: _Receiver, secret: _Secret) -> str | None:
    """What an answer that is no success most likely means."""
    match answer.status:
        case 401 | 403 if receiver.is_source:
            return (
                f"The source did not accept it. The secret is from {secret.origin}; is it the one "
                "of this source, and may this machine send to it?"
            )
        case 401 | 403:
            return (
                "The server did not accept the signature. Does it verify with the secret from "
                f"{secret.origin}?"
            )
        case 404 if receiver.is_source:
            return "The source is switched off, or was deleted."
        case 404:
            return f"The server has nothing at {urlsplit(receiver.url).path or '/'}."
        case 405:
            return "The server takes no POST there."
        case status if 300 <= status < 400:
            where = plain(answer.location or "nowhere")
            return f"The server redirects to {where}; providers do not follow."
        case _:
            return None


def _without(secret: str, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they may be shown: GitLab's token is the secret itself."""
    return {name: value.replace(secret, _HIDDEN) for name, value in headers.items()}


def _secret(path: Path | None) -> _Secret:
    """Raises Misconfigured where there is none, and nobody to ask."""
    if path is not None:
        try:
            text = sys.stdin.read() if str(path) == "-" else path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(
                f"the secret cannot be read: {type(error).__name__}", param_hint="--secret-file"
            ) from None
        found = _Secret(text=text.strip(), origin=str(path) if str(path) != "-" else "its input")
    elif value := os.environ.get(SECRET_VARIABLE):
        found = _Secret(text=value.strip(), origin=SECRET_VARIABLE)
    elif sys.stdin.isatty():
        text = typer.prompt("The secret it is signed with", hide_input=True, err=True)
        found = _Secret(text=text.strip(), origin="what you typed")
    else:
        raise Misconfigured(
            f"there is no secret to sign with. Set {SECRET_VARIABLE}, or name a file with "
            "--secret-file"
        )
    if not found.text:
        raise Misconfigured(f"the secret from {found.origin} is empty")
    if not found.text.isprintable():
        raise Misconfigured(
            f"the secret from {found.origin} is more than one line, or holds control characters"
        )
    return found


def _options(text: str | None) -> dict[str, Any]:
    """A provider's options. Raises typer.BadParameter."""
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"it is not JSON: {error}", param_hint="--options") from None
    if not isinstance(value, dict):
        raise typer.BadParameter("it is not a JSON object", param_hint="--options")
    return value


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
