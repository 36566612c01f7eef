"""`hookfast trigger NAME`: send a signed sample request as its provider would, to a source or a
server under development; or a test with the same data to an endpoint."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import typer

from hookfast.cli.remote.api import Unreachable, path_of
from hookfast.cli.remote.endpoint_test import test_facts
from hookfast.cli.remote.options import parse_object, read_secret
from hookfast.cli.remote.remote import Remote
from hookfast.cli.remote.screen import (
    print_facts,
    print_note,
    printable,
    truncate,
)
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
from hookfast_client.answer import error_text
from hookfast_client.url import is_local

SECRET_VARIABLE = "HOOKFAST_TRIGGER_SECRET"  # noqa: S105 - the variable's name, not a secret
_SHOWN_BODY = 400
_HIDDEN = "•••"
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_RESPONSE_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How often to send, and the file of the secret. `same_id`: the same request each time."""

    secret_file: Path | None
    count: int
    same_id: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A server's response, with the start of a long body. `ids` are the headers in which a source
    names the inbox entry and the event, because some providers expect another body."""

    status: int
    reason: str
    text: str
    location: str | None
    ids: Mapping[str, str]
    milliseconds: float

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx, which providers count as success."""
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Receiver:
    """The receiver of the sample: it is sent to `url`, and signed for `signed_url`, which the
    provider would have called (Twilio signs the URL)."""

    provider: Provider
    url: str
    signed_url: str
    is_source: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Secret:
    """The secret that signs, and where it was found."""

    text: str = field(repr=False)
    origin: str


def list_samples(remote: Remote) -> None:
    """Print every sample and the event type that it becomes."""
    samples = [{"name": name, "event_type": type_of_sample(name)} for name in SAMPLE_NAMES]
    if remote.as_json:
        typer.echo(json.dumps(samples))
        return
    remote.print_table(
        samples,
        {
            "name": "name",
            "event type": lambda row: row["event_type"] or "set by the source's options",
        },
        if_empty="There are no samples.",
    )


def to_source(remote: Remote, name: str, source_id: str, *, sending: Sending) -> None:
    """Send the sample to a source of this Hookfast."""
    source = remote.api.get(path_of("sources", source_id)).value
    path = f"/in/{source['id']}"
    url = f"{remote.api.url}{path}"
    _send(
        remote,
        name,
        _Receiver(
            provider=provider(source["provider"], source["options"]),
            url=url,
            # a source with a public URL verifies that one, whatever URL the request came to
            signed_url=url if is_local(source["url"]) else source["url"],
            is_source=True,
        ),
        sending,
    )


def to_url(remote: Remote, name: str, url: str, *, options: str | None, sending: Sending) -> None:
    """Send the sample to a server. This needs no API key and no running Hookfast."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable:
        raise typer.BadParameter(
            "it is not a URL like http://localhost:3000/hooks", param_hint="--to"
        )
    members = {} if options is None else parse_object(options, option="--options")
    bound = provider(provider_of_sample(name), members)
    receiver = _Receiver(provider=bound, url=url, signed_url=url, is_source=False)
    _send(remote, name, receiver, sending)


def to_endpoint(remote: Remote, name: str, endpoint_id: str, *, count: int) -> None:
    """Have Hookfast send a test with the sample's event type to an endpoint."""
    event_type = type_of_sample(name)
    if event_type is None:
        raise InvalidInput.at(
            "NAME",
            f"the event type of {name} depends on its source; use `endpoints test` with a type",
        )
    failed = False
    for _ in range(count):
        response = remote.api.post(path_of("endpoints", endpoint_id, "test"), {"type": event_type})
        failed = failed or not response.value["succeeded"]
        if not remote.printed_json(response):
            print_facts({"event type": event_type, **test_facts(response.value)})
    if failed:
        raise typer.Exit(1)


def _send(remote: Remote, name: str, receiver: _Receiver, sending: Sending) -> None:
    signed: SignedSample | None = None
    secret = _find_secret(sending.secret_file)
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
        headers = _without_secret(signed.headers, secret.text)
        if not remote.as_json:
            print_facts({"POST": receiver.url, **headers})
            typer.echo(f"  {truncate(signed.body.decode(), _SHOWN_BODY)}")
        response = post(receiver.url, headers=signed.headers, body=signed.body)
        failed = failed or not response.is_success
        if remote.as_json:
            _print_json(receiver.url, headers, signed.body, response)
        else:
            _print_response(response)
        if not response.is_success and (advice := _advice(response, receiver, secret)) is not None:
            print_note(advice)
    if failed:
        raise typer.Exit(1)


def post(
    url: str, *, headers: Mapping[str, str], body: bytes, response_seconds: float = 30.0
) -> Response:
    """POST as a provider does: without an API key and without following redirects. Raises
    Unreachable if no response came, or it is not complete after `response_seconds`."""
    body_read = bytearray()
    began = time.perf_counter()
    try:
        with (
            httpx2.Client(timeout=_TIMEOUT, trust_env=not is_local(url)) as client,
            client.stream("POST", url, headers=dict(headers), content=body) as response,
        ):
            for chunk in response.iter_bytes():
                body_read += chunk
                if len(body_read) >= _RESPONSE_BYTES:
                    break
                if time.perf_counter() - began > response_seconds:
                    raise Unreachable(f"{url} did not finish its response in time.")
    except httpx2.ConnectError as error:
        raise Unreachable(f"Nothing answers at {url} ({error}). Is it started?") from None
    except httpx2.TimeoutException:
        raise Unreachable(f"{url} did not answer in time.") from None
    except httpx2.LocalProtocolError:
        # without the error's text, which quotes the header: GitLab's token is a header
        raise Unreachable(f"This cannot be sent to {url}: HTTP does not allow a header.") from None
    except (httpx2.TransportError, httpx2.DecodingError) as error:
        raise Unreachable(f"The connection to {url} failed: {error_text(error)}.") from None
    except (httpx2.InvalidURL, ValueError) as error:
        raise Unreachable(f"This cannot be sent to {url}: {error}.") from None
    return Response(
        status=response.status_code,
        reason=response.reason_phrase,
        text=bytes(body_read[:_RESPONSE_BYTES]).decode(errors="replace").strip(),
        ids={
            name: response.headers[name]
            for name in ("X-Hookfast-Inbox-Id", "X-Hookfast-Event-Id")
            if name in response.headers
        },
        location=response.headers.get("location"),
        milliseconds=(time.perf_counter() - began) * 1000,
    )


def _print_response(response: Response) -> None:
    typer.echo(
        f"→ {response.status} {printable(response.reason)} in {response.milliseconds:.0f} ms"
    )
    if response.text:
        typer.echo(f"  {truncate(printable(response.text), _SHOWN_BODY)}")
    for name, value in response.ids.items():
        typer.echo(f"  {name}: {printable(value)}")
    typer.echo()


def _print_json(url: str, headers: Mapping[str, str], body: bytes, response: Response) -> None:
    """Print one line of JSON for a request."""
    document = {
        "request": {"url": url, "headers": dict(headers), "body": body.decode()},
        "status": response.status,
        "duration_ms": round(response.milliseconds, 3),
        "answer": response.text,
        "ids": dict(response.ids),
    }
    typer.echo(json.dumps(document, ensure_ascii=False))


def _advice(response: Response, receiver: _Receiver, secret: _Secret) -> str | None:
    """Return the most likely cause of a response that is not 2xx."""
    match response.status:
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
            return "The source is not active, or was deleted."
        case 404:
            return f"The server has nothing at {urlsplit(receiver.url).path or '/'}."
        case 405:
            return "The server does not accept POST there."
        case status if 300 <= status < 400:
            where = printable(response.location or "nowhere")
            return f"The server redirects to {where}; providers do not follow redirects."
        case _:
            return None


def _without_secret(headers: Mapping[str, str], secret: str) -> dict[str, str]:
    """Return the headers with the secret hidden: GitLab's token header is the secret itself."""
    return {name: value.replace(secret, _HIDDEN) for name, value in headers.items()}


def _find_secret(file: Path | None) -> _Secret:
    """Return the secret from the file, the environment or the terminal. Raises Misconfigured."""
    if file is not None:
        origin = str(file) if str(file) != "-" else "standard input"
        found = _Secret(text=read_secret(file), origin=origin)
    elif value := os.environ.get(SECRET_VARIABLE):
        found = _Secret(text=value.strip(), origin=SECRET_VARIABLE)
    elif sys.stdin.isatty():
        text = typer.prompt("The secret that signs it", hide_input=True, err=True)
        found = _Secret(text=text.strip(), origin="the terminal")
    else:
        raise Misconfigured(
            f"there is no secret to sign with. Set {SECRET_VARIABLE}, or name a file with "
            "--secret-file"
        )
    if not found.text:
        raise Misconfigured(f"the secret from {found.origin} is empty")
    if not found.text.isprintable():
        raise Misconfigured(
            f"the secret from {found.origin} is more than one line, or has control characters"
        )
    return found
