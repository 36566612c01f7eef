"""The code that customers copy runs: each receiver verifies real requests of the sender, and
answers the challenge. Where an interpreter is missing its tests are skipped."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Literal

import pytest

from api.portal.snippets import (
    LANGUAGES,
    MAX_BYTES,
    VARIABLE,
    challenge_snippet,
    literal,
    run_command,
    send_snippet,
    verify_snippet,
)
from hookfast.deliveries.headers import request_headers
from hookfast.sender import AddressGuard, Sender, verify_endpoint
from hookfast.signing.signature import HashName, Profile, generate_secret, secret_key

NEEDS = {
    "python": "python3",
    "node": "node",
    "go": "go",
    "php": "php",
    "ruby": "ruby",
    "java": "java",
}
COMPILED = ("go", "java")
EACH_LANGUAGE = [
    pytest.param(
        name,
        marks=[
            pytest.mark.skipif(
                shutil.which(NEEDS[name]) is None, reason=f"{NEEDS[name]} is missing"
            ),
            *([pytest.mark.slow] if name in COMPILED else []),
        ],
    )
    for name in LANGUAGES
]
BODY = '{"type":"order.invoice.paid","data":{"note":"grüße"}}'.encode()
SECRET, OLDER, FOREIGN = (generate_secret() for _ in range(3))
NO_SECRETS = ("", "whsec_…", f",{SECRET}")
HOSTILE = "\"'`\\#{exit 1}$HOME${x}{$y}\n\r\t\0\u2028\u0085é😀\\u0022?>*/</script>%s\\"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A receiver of an endpoint, and how its secret gets into it."""

    signatures: tuple[Profile, ...]
    hash_name: HashName = HashName.SHA256
    challenge: Literal["header", "query"] = "header"
    secret_in: Literal["code", "environment"] = "code"


CASES = (
    Case(signatures=(Profile.HOOK, Profile.STANDARD)),
    Case(signatures=(Profile.STANDARD_ED25519, Profile.STANDARD), secret_in="environment"),
    Case(
        signatures=(Profile.HOOK,),
        hash_name=HashName.SHA512,
        challenge="query",
        secret_in="environment",
    ),
    Case(signatures=(Profile.HOOK,), hash_name=HashName.SHA1),
    Case(signatures=(Profile.NONCE,), challenge="query"),
    Case(signatures=(Profile.BODY,)),
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def running(
    language: str,
    code: str,
    folder: Path,
    *,
    port: int,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run a receiver as its comment says, in a folder of its own."""
    folder.mkdir()
    (folder / LANGUAGES[language].file).write_text(code, encoding="utf-8")
    command = run_command(language, port=port)
    assert f"Run: {command}" in code
    with (folder / "log").open("w") as output:
        process = subprocess.Popen(
            shlex.split(command),
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # `go run` has a child
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(process: subprocess.Popen[str], folder: Path, port: int) -> None:
    """Wait until a receiver listens."""
    ends = time.monotonic() + 60
    while True:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < ends, (folder / "log").read_text()
        time.sleep(0.02)


def signed(
    case: Case, *secrets: str, body: bytes = BODY, age: float = 0, message_id: str = "dlv_1"
) -> dict[str, str]:
    """The headers of a delivery, as a worker makes them."""
    return request_headers(
        body,
        message_id=message_id,
        event_type="order.invoice.paid",
        attempt=1,
        timestamp=int(time.time() - age),
        profiles=[each for each in case.signatures if each is not Profile.STANDARD_ED25519],
        keys=[secret_key(secret) for secret in secrets],
        hash_name=case.hash_name,
        custom={},
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )


async def statuses(sender: Sender, case: Case, url: str) -> dict[str, int | None]:
    """What the receiver answers to each request."""
    known = signed(case, SECRET)
    requests: dict[str, tuple[Mapping[str, str], bytes]] = {
        "valid": (known, BODY),
        "valid, with a proxy's header": ({**known, "X-Forwarded-For": "192.0.2.1"}, BODY),
        "valid, of no bytes": (signed(case, SECRET, body=b""), b""),
        "valid, of any bytes": (signed(case, SECRET, body=bytes(range(256))), bytes(range(256))),
        "new and old secret": (signed(case, FOREIGN, SECRET), BODY),
        "old secret": (signed(case, OLDER), BODY),
        "another secret": (signed(case, FOREIGN), BODY),
        "another body": (known, BODY.replace(b"paid", b"void")),
        "a byte more": (known, BODY + b" "),
        "unsigned": ({"Content-Type": "application/json"}, BODY),
        "too large": (signed(case, SECRET, body=bytes(MAX_BYTES + 1)), bytes(MAX_BYTES + 1)),
    }
    if Profile.BODY not in case.signatures:
        stamp = [name for name in known if name.lower().endswith("timestamp")][-1]
        requests |= {
            "a minute old": (signed(case, SECRET, age=60), BODY),
            "too old": (signed(case, SECRET, age=310), BODY),
            "from the future": (signed(case, SECRET, age=-310), BODY),
            "another time": (known | {stamp: str(int(known[stamp]) - 1)}, BODY),
            "no number": (known | {stamp: "1e9"}, BODY),
        }
    return {
        name: (await sender.post(url, headers=headers, body=body, timeout=10)).status_code
        for name, (headers, body) in requests.items()
    }


def expected(name: str) -> tuple[int | None, ...]:
    """The statuses that are right for a request."""
    if name == "too large":
        return 413, None  # the connection may end before the answer is read
    return (204,) if name in GENUINE else (401,)


GENUINE = (
    *("valid", "valid, with a proxy's header", "valid, of no bytes", "valid, of any bytes"),
    *("new and old secret", "old secret", "a minute old"),
)


ODD_REQUESTS = (
    b"Content-Length: 1000\r\n\r\nhalf",  # and gone
    b"Content-Length: -1\r\n\r\n",
    b"Content-Length: many\r\n\r\n",
    *(
        b"Content-Length: 2\r\n%s: %s\r\n%s: v1,sha256=\xe9\r\n\r\n{}" % (stamp, value, signature)
        for stamp, signature in (
            (b"webhook-timestamp", b"webhook-signature"),
            (b"X-Hook-Timestamp", b"X-Hook-Signature"),
            (b"X-Webhook-Timestamp", b"X-Webhook-Signature"),
        )
        for value in (b"\xb2", b"1" * 5_000, b"-1", b"%d" % time.time())
    ),
)


def send_odd_requests(port: int) -> None:
    """Send what no sender sends, and go away. No answer may be a success."""
    for rest in ODD_REQUESTS:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + rest)
            client.shutdown(socket.SHUT_WR)
            client.settimeout(10)
            assert not re.match(rb"HTTP/1.. 2", client.recv(1024))


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_receiver_accepts_genuine_deliveries_only(language: str, tmp_path: Path) -> None:
    async def check(cases: Sequence[tuple[Case, int]]) -> None:
        async with Sender(guard=AddressGuard((ip_network("127.0.0.0/8"),))) as sender:
            for case, port in cases:
                url = f"http://127.0.0.1:{port}/webhooks?of=shop"
                answers = await statuses(sender, case, url)
                assert {
                    name: status for name, status in answers.items() if status not in expected(name)
                } == {}, case
                await verify_endpoint(
                    sender, mode=case.challenge, url=url, tenant_id="tnt_1", topics=["order.**"]
                )
                send_odd_requests(port)
                assert (await statuses(sender, case, url))["valid"] == 204

    with ExitStack() as stack:
        started = []
        for place, case in enumerate(CASES):
            port, folder = free_port(), tmp_path / str(place)
            inline = case.secret_in == "code"
            code = verify_snippet(
                language,
                signatures=case.signatures,
                hash_name=case.hash_name,
                secrets=(SECRET, OLDER) if inline else (),
                challenge=case.challenge,
                port=port,
            )
            environment = None if inline else {VARIABLE: f"{SECRET},{OLDER}"}
            process = stack.enter_context(
                running(language, code, folder, port=port, environment=environment)
            )
            started.append((process, folder, port))
        for process, folder, port in started:
            wait_for(process, folder, port)
        asyncio.run(
            check([(case, port) for case, (_, _, port) in zip(CASES, started, strict=True)])
        )


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_receiver_answers_the_challenge_before_it_has_a_secret(
    language: str, tmp_path: Path
) -> None:
    async def check(url: str, mode: Literal["header", "query"]) -> None:
        async with Sender(guard=AddressGuard((ip_network("127.0.0.0/8"),))) as sender:
            await verify_endpoint(sender, mode=mode, url=url, tenant_id="tnt_1", topics=["a.b"])

    modes: tuple[Literal["header", "query"], ...] = ("header", "query")
    with ExitStack() as stack:
        started = []
        for mode in modes:
            port, folder = free_port(), tmp_path / mode
            code = challenge_snippet(language, mode=mode, port=port)
            process = stack.enter_context(running(language, code, folder, port=port))
            started.append((mode, process, folder, port))
        for mode, process, folder, port in started:
            wait_for(process, folder, port)
            asyncio.run(check(f"http://127.0.0.1:{port}/hooks?of=shop", mode))


@pytest.mark.parametrize("language", [each for each in EACH_LANGUAGE if each.values != ("php",)])
def test_receiver_does_not_start_without_a_secret(language: str, tmp_path: Path) -> None:
    """An empty key would make everybody's signatures valid."""
    with ExitStack() as stack:
        started = []
        for place, secret in enumerate(NO_SECRETS):
            port = free_port()
            code = verify_snippet(language, signatures=["standard"], port=port)
            started.append(
                stack.enter_context(
                    running(
                        language,
                        code,
                        tmp_path / str(place),
                        port=port,
                        environment={VARIABLE: secret},
                    )
                )
            )
        assert 0 not in [process.wait(60) for process in started]


@pytest.mark.skipif(shutil.which("php") is None, reason="php is missing")
@pytest.mark.parametrize("secret", NO_SECRETS, ids=("empty", "placeholder", "one of two"))
def test_php_receiver_rejects_everything_without_a_secret(secret: str, tmp_path: Path) -> None:
    """It has no start of its own: each request runs the whole file."""
    port = free_port()
    code = verify_snippet("php", signatures=["hook"], port=port)
    forged = signed(Case(signatures=(Profile.HOOK,)), SECRET)

    async def check() -> int | None:
        async with Sender(guard=AddressGuard((ip_network("127.0.0.0/8"),))) as sender:
            url = f"http://127.0.0.1:{port}/"
            return (await sender.post(url, headers=forged, body=BODY, timeout=10)).status_code

    with running(
        "php", code, tmp_path / "it", port=port, environment={VARIABLE: secret}
    ) as process:
        wait_for(process, tmp_path / "it", port)
        assert asyncio.run(check()) == 500


@pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "openssl", "curl"))), reason="no bash, openssl or curl here"
)
def test_sample_message_of_the_guide_is_accepted_with_the_right_secret(tmp_path: Path) -> None:
    port = free_port()
    code = verify_snippet("python", signatures=["standard"], secrets=[SECRET], port=port)
    body = """{"note":"it's 5 €, $HOME \\"`x`\\""}"""
    commands = send_snippet(body, port=port)
    with running("python", code, tmp_path / "it", port=port) as process:
        wait_for(process, tmp_path / "it", port)
        answers = [
            subprocess.run(
                ["bash", "-euc", commands],
                env={**os.environ, VARIABLE: secret},
                capture_output=True,
                timeout=60,
                check=True,
                text=True,
            ).stdout.split()[1]
            for secret in (SECRET, FOREIGN)
        ]
    assert answers == ["204", "401"]


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_no_value_leaves_its_string_literal(language: str, tmp_path: Path) -> None:
    text = literal(language, HOSTILE)
    program = {
        "python": f"import sys\nsys.stdout.buffer.write({text}.encode())",
        "node": f"process.stdout.write({text});",
        "go": f'package main\n\nimport "fmt"\n\nfunc main() {{ fmt.Print({text}) }}',
        "php": f"<?php echo {text};",
        "ruby": f"print {text}",
        "java": "class Receiver { public static void main(String[] given) throws Exception {"
        f' System.out.write({text}.getBytes("UTF-8")); System.out.flush(); }} }}',
    }[language]
    file = tmp_path / LANGUAGES[language].file
    file.write_text(program, encoding="ascii")
    command = run_command(language).replace("-S 127.0.0.1:3000 ", "")
    printed = subprocess.run(
        shlex.split(command), cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert (printed.stdout.decode(), printed.stderr.decode()) == (HOSTILE, "")
