"""Connections go only to addresses that the guard has checked for this request.

`Recorder` replaces the function that opens sockets. It records the address and connects to the
receiver on loopback instead, so that names can have public addresses in these tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trustme

from hookfast.deliveries.outcome import Outcome, Result
from hookfast.sender import AddressGuard, Sender
from hookfast.sender.dial import connect_tcp
from hookfast.sender.resolver import Lookup
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

PUBLIC, OTHER = "8.8.8.8", "2606:4700::1111"


class Recorder:
    """Connects to the receiver for any address; `dialled` are the requested addresses."""

    def __init__(self, receiver: Receiver) -> None:
        self.dialled: list[tuple[str, int]] = []
        self._receiver = receiver

    async def __call__(self, address: str, port: int) -> socket.socket:
        self.dialled.append((address, port))
        return await connect_tcp("127.0.0.1", self._receiver.port)


class Answers:
    """A name server whose answers change with each lookup; the last one is repeated."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@asynccontextmanager
async def recording(
    receiver: Receiver, lookup: Lookup, *, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Sender, Recorder]]:
    """Create a sender as in production, without private networks, and record its connections."""
    recorder = Recorder(receiver)
    async with Sender(
        guard=AddressGuard(), lookup=lookup, connect=recorder, ssl_context=ssl_context
    ) as sender:
        yield sender, recorder


async def post(sender: Sender, url: str) -> Outcome:
    return await sender.post(url, headers={}, body=b"{}", timeout=PATIENCE)


async def test_connects_to_the_checked_address_with_the_name_as_host_and_sni(
    authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    names = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hooks.example.com").configure_cert(context)
    context.sni_callback = lambda connection, name, context: names.append(name)
    async with (
        Receiver(ssl_context=context) as receiver,
        recording(receiver, Answers([PUBLIC]), ssl_context=trusting) as (sender, recorder),
    ):
        outcome = await post(sender, "https://hooks.example.com/hook")
    assert outcome.succeeded
    assert recorder.dialled == [(PUBLIC, 443)]
    assert names == ["hooks.example.com"]
    assert receiver.requests[0].headers["host"] == "hooks.example.com"


async def test_a_literal_address_is_connected_to_without_a_lookup(receiver: Receiver) -> None:
    answers = Answers(["127.0.0.1"])
    async with recording(receiver, answers) as (sender, recorder):
        assert (await post(sender, f"http://{PUBLIC}/")).succeeded
        assert (await post(sender, f"http://[{OTHER}]:8080/")).succeeded
    assert recorder.dialled == [(PUBLIC, 80), (OTHER, 8080)]
    assert answers.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        [PUBLIC, "127.0.0.1"],
        ["127.0.0.1", PUBLIC],
        [PUBLIC, OTHER, "::1"],
        [OTHER, "::ffff:169.254.169.254"],
        [*(f"8.8.{number}.1" for number in range(200)), "10.0.0.1"],  # more than the sender tries
        ["64:ff9b::7f00:1"],
        ["fe80::1%1"],
    ],
)
async def test_a_name_with_one_blocked_address_is_never_connected_to(
    receiver: Receiver, answer: list[str]
) -> None:
    async with recording(receiver, Answers(answer)) as (sender, recorder):
        outcome = await post(sender, "http://mixed.example.com/")
    assert outcome.result is Result.ADDRESS
    assert recorder.dialled == []


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "10.0.0.1", "169.254.169.254", "100.100.100.200", "0.0.0.0"),  # noqa: S104
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]"),
        *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fd00:ec2::254]", "[fe80::1]"),
        *("localhost", "x.localhost", "metadata.google.internal", "metadata", "db.internal"),
    ],
)
async def test_a_blocked_host_is_neither_looked_up_nor_connected_to(
    receiver: Receiver, host: str
) -> None:
    answers = Answers([PUBLIC])  # a name server that lies about the names
    async with recording(receiver, answers) as (sender, recorder):
        outcome = await post(sender, f"http://{host}/latest/meta-data/")
    assert outcome.result is Result.ADDRESS
    assert (recorder.dialled, answers.asked) == ([], [])


async def test_a_name_that_moves_into_a_private_network_is_blocked_at_the_next_attempt(
    receiver: Receiver,
) -> None:
    receiver.routes["/hook"] = "/close-after"  # each attempt needs its own connection
    answers = Answers([PUBLIC], [PUBLIC, "10.0.0.1"], ["169.254.169.254"], [OTHER])
    async with recording(receiver, answers) as (sender, recorder):
        results = []
        for _ in range(4):
            results.append((await post(sender, "http://rebind.example.com/hook")).result)
            await asyncio.sleep(0.02)  # the close arrives
    assert results == [Result.SUCCESS, Result.ADDRESS, Result.ADDRESS, Result.SUCCESS]
    assert recorder.dialled == [(PUBLIC, 80), (OTHER, 80)]


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
        "http://127.0.0.1/",
        "//[::1]/",
        "http://metadata.google.internal/",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "/hook",
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(receiver: Receiver, status: int, target: str) -> None:
    receiver.routes["/hook"] = f"/redirect?status={status}&to={target}"
    async with recording(receiver, Answers([PUBLIC])) as (sender, recorder):
        outcome = await post(sender, "http://hooks.example.com/hook")
    assert (outcome.result, outcome.status_code) == (Result.STATUS, status)
    assert recorder.dialled == [(PUBLIC, 80)]
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("http://a.example.com/", "http://b.example.com/"),  # one address, two names
        ("http://a.example.com/", "http://a.example.com:8080/"),
        (f"http://{PUBLIC}/", "http://a.example.com/"),
    ],
)
async def test_a_kept_connection_is_not_used_for_another_origin(
    receiver: Receiver, first: str, second: str
) -> None:
    async with recording(receiver, Answers([PUBLIC])) as (sender, recorder):
        await post(sender, first)
        await post(sender, second)
        await post(sender, first)
    assert [request.connection for request in receiver.requests] == [1, 2, 1]
    assert len(recorder.dialled) == 2


async def test_a_plain_connection_is_not_reused_for_https(
    receiver: Receiver,
) -> None:
    async with recording(receiver, Answers([PUBLIC])) as (sender, recorder):
        assert (await post(sender, "http://a.example.com:8443/")).succeeded
        url = "https://a.example.com:8443/"
        outcome = await sender.post(url, headers={}, body=b"{}", timeout=0.3)
    assert outcome.result in (Result.TLS, Result.TIMEOUT)  # the receiver speaks no TLS
    assert len(recorder.dialled) == 2
    assert len(receiver.requests) == 1


async def test_the_environment_does_not_change_the_address_or_headers(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:4")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:4")
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w") as file:  # noqa: ASYNC230
        file.write("machine hooks.example.com login admin password secret\n")
    monkeypatch.setenv("NETRC", netrc)
    async with recording(receiver, Answers([PUBLIC])) as (sender, recorder):
        assert (await post(sender, "http://hooks.example.com/")).succeeded
    assert recorder.dialled == [(PUBLIC, 80)]
    assert "authorization" not in receiver.requests[0].headers


async def test_hanging_lookups_of_one_domain_leave_threads_for_others(
    receiver: Receiver,
) -> None:
    hanging: list[str] = []
    released = asyncio.Event()
    loop = asyncio.get_running_loop()

    def lookup(host: str) -> Sequence[str]:
        if host.endswith("evil.example"):
            hanging.append(host)
            asyncio.run_coroutine_threadsafe(released.wait(), loop).result(30)
        return [PUBLIC]

    async with recording(receiver, lookup) as (sender, _):
        evil = [
            asyncio.create_task(
                sender.post(f"http://a{number}.evil.example/", headers={}, body=b"", timeout=3)
            )
            for number in range(400)  # more than there are threads
        ]
        await asyncio.sleep(0.05)
        assert (await post(sender, "http://good.example/")).succeeded
        assert not any(task.done() for task in evil)
        assert len(hanging) <= 8
        for task in evil:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*evil)
        released.set()


async def test_lookups_that_wait_for_their_domain_complete(receiver: Receiver) -> None:
    async with recording(receiver, Answers([PUBLIC])) as (sender, _):
        outcomes = await asyncio.gather(
            *(post(sender, f"http://a{number}.example.co.uk/") for number in range(40))
        )
    assert {outcome.result for outcome in outcomes} == {Result.SUCCESS}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://127.0.0.1/", "127.0.0.1 is blocked (loopback)."),
        ("https://db.internal/", "db.internal is blocked (a name for private networks)."),
        (
            "https://inside.example.com/",
            "inside.example.com resolves to a blocked address (private).",
        ),
        ("https://public.example.com/", None),
        ("https://nowhere.example.com/", None),
    ],
)
async def test_blocked_reason_is_known_without_connecting(
    receiver: Receiver, url: str, reason: str | None
) -> None:
    def lookup(host: str) -> Sequence[str]:
        if host.startswith("nowhere"):
            raise socket.gaierror(socket.EAI_NONAME, "none")
        return ["10.0.0.1"] if host.startswith("inside") else [PUBLIC]

    async with recording(receiver, lookup) as (sender, recorder):
        assert await sender.blocked_reason(url, timeout=PATIENCE) == reason
    assert recorder.dialled == []
