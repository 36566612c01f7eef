"""What holds for every call: repetitions, errors, deadlines and headers."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import traceback
import warnings
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from hookfast_client import (
    ApiError,
    AsyncHookfast,
    ConnectionFailed,
    Hookfast,
    InvalidInput,
    NotFound,
    RateLimited,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
)
from hookfast_client.version import VERSION
from tests.e2e.service_process import free_ports
from tests.integration.client.conftest import TYPE, Connect
from tests.support.api_client import OPERATOR_KEY
from tests.support.api_server import ApiServer
from tests.support.faulty_proxy import Answer, FaultyProxy

pytestmark = pytest.mark.anyio

_PROBLEM = b'{"detail": "Later.", "code": "unavailable"}'


async def test_a_creation_is_not_repeated_when_its_answer_is_lost(
    hookfast: Any, proxy: FaultyProxy
) -> None:
    for fault, error in (
        ("lose the answer", ConnectionFailed),
        (Answer(503, _PROBLEM, {"Retry-After": "0"}), Unavailable),
        (Answer(504), Unavailable),
    ):
        proxy.next(fault)
        with pytest.raises(error) as failed:
            await hookfast.tenants.create(name="Acme")
        assert failed.value.outcome_unknown
        assert len(proxy.requests) == 1
    assert len([tenant async for tenant in hookfast.tenants.list()]) == 1


async def test_a_creation_is_repeated_when_nothing_was_created(
    hookfast: Any, proxy: FaultyProxy
) -> None:
    soon = format_datetime(datetime.now(UTC) - timedelta(seconds=1), usegmt=True)
    overloaded = b'{"detail": "Later.", "code": "overloaded"}'
    proxy.next(
        Answer(429, _PROBLEM, {"Retry-After": soon}),
        Answer(408, b'{"detail": "Slow.", "code": "body_timeout"}', {}),
        Answer(503, overloaded, {"Retry-After": "0"}),
    )
    tenant = await hookfast.tenants.create(name="Acme")
    assert len(proxy.requests) == 4
    assert [found["id"] async for found in hookfast.tenants.list()] == [tenant["id"]]


async def test_a_deletion_whose_answer_is_lost_succeeds(hookfast: Any, proxy: FaultyProxy) -> None:
    proxy.next("lose the answer")
    await hookfast.event_types.delete(TYPE)
    assert len(proxy.requests) == 2
    with pytest.raises(NotFound):
        await hookfast.event_types.delete(TYPE)


async def test_retries_end(connect: Connect, proxy: FaultyProxy) -> None:
    client = connect(proxy.url, max_retries=2)
    proxy.next(*[Answer(502)] * 9)
    with pytest.raises(
        Unavailable, match="answered 502 Bad Gateway, not as Hookfast does"
    ) as error:
        await client.endpoints.get("ep_1")
    assert error.value.code == "no_service"
    assert len(proxy.requests) == 3


async def test_a_server_that_starts_late_is_waited_for(connect: Connect) -> None:
    (port,) = free_ports(1)
    client = connect(f"http://127.0.0.1:{port}", max_retries=50)
    calling = asyncio.ensure_future(client.tenants.create(name="Acme"))
    await asyncio.sleep(0.1)
    answer = b"HTTP/1.1 201 Created\r\nContent-Length: 13\r\n\r\n" + b'{"id":"tnt_"}'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", port):
        assert await calling == {"id": "tnt_"}


async def test_nothing_listens(connect: Connect) -> None:
    (port,) = free_ports(1)
    with pytest.raises(ConnectionFailed, match="There is no Hookfast at http://127") as failed:
        await connect(f"http://127.0.0.1:{port}", max_retries=1).endpoints.get("ep_1")
    assert failed.value.outcome_unknown is False


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200),
        Answer(200, b"[]", {"Content-Type": "application/json"}),
        Answer(301, b"", {"Location": "https://example.com/"}),
        Answer(404),
        Answer(500, b"", {}),
        Answer(202, b"not gzip", {"Content-Encoding": "gzip"}),
    ],
)
async def test_another_servers_answer_is_no_answer(
    connect: Connect, proxy: FaultyProxy, answer: Answer
) -> None:
    proxy.next(answer)
    with pytest.raises(UnexpectedAnswer) as failed:
        await connect(proxy.url).endpoints.get("ep_1")
    assert failed.value.status == answer.status
    assert proxy.url in str(failed.value)
    assert len(proxy.requests) == 1


async def test_problems_are_errors_with_their_details(hookfast: Any) -> None:
    with pytest.raises(InvalidInput) as failed:
        await hookfast.endpoints.create(url="ftp://example.com", tenant_id="tnt_" + "0" * 32)
    error = failed.value
    assert (error.status, error.code) == (422, "invalid_url")
    assert [found.pointer for found in error.errors] == ["/url"]
    assert (error.request_id or "").startswith("req_")
    assert str(error).startswith("422 invalid_url: ")
    assert "/url: " in str(error)


async def test_the_key_is_nowhere_to_be_seen(connect: Connect, proxy: FaultyProxy) -> None:
    key = "hf_" + "secret-" * 6
    client = connect(proxy.url, key, max_retries=0)
    texts = [repr(getattr(client, "_target", client)), str(client.url)]
    proxy.next(Answer(200), "reset", "hang", Answer(401, _PROBLEM, {}))
    impatient = connect(proxy.url, key, timeout=0.1, max_retries=0)
    for kind, used in (
        (UnexpectedAnswer, client),
        (ConnectionFailed, client),
        (ConnectionFailed, impatient),
        (Unauthenticated, client),
    ):
        with pytest.raises(kind) as failed:
            await used.events.emit(TYPE, 1)
        texts += [repr(failed.value), str(failed.value)]
        whole = traceback.TracebackException.from_exception(failed.value, capture_locals=True)
        texts += [text for text in whole.format() if __file__ not in text]
    assert proxy.requests[0].headers["authorization"] == f"Bearer {key}"
    assert not [text for text in texts if key in text]
    with pytest.raises(ValueError, match="API key") as rejected:
        Hookfast(proxy.url, f"{key} {key}")
    assert key not in str(rejected.value)


async def test_requests_join_the_current_trace(hookfast: Any, proxy: FaultyProxy) -> None:
    proxy.next("reset")
    with TracerProvider().get_tracer("tests").start_as_current_span("checkout") as span:
        await hookfast.events.emit(TYPE, 1)
    context = span.get_span_context()
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert [request.headers["traceparent"] for request in proxy.requests] == [expected] * 2
    assert trace.get_current_span() is trace.INVALID_SPAN
    await hookfast.events.emit(TYPE, 1)
    assert "traceparent" not in proxy.requests[-1].headers
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert proxy.requests[-1].headers["user-agent"] == f"hookfast-client/{VERSION} python/{version}"


async def test_a_limited_key_is_denied(connect: Connect, hookfast: Any, proxy: FaultyProxy) -> None:
    tenant = await hookfast.tenants.create(name="Acme")
    key = await hookfast.tenants.create_api_key(tenant["id"], name="ci", scope="emit")
    emitter = connect(proxy.url, key["key"])
    await emitter.events.emit(TYPE, 1)
    with pytest.raises(ApiError) as denied:
        [found async for found in emitter.endpoints.list()]
    assert denied.value.status == 403
    await hookfast.api_keys.revoke(key["id"])
    with pytest.raises(Unauthenticated):
        await emitter.events.emit(TYPE, 1)


async def test_options_apply_to_a_copy(hookfast: Any, proxy: FaultyProxy) -> None:
    impatient = hookfast.with_options(max_retries=0)
    proxy.next(Answer(429, _PROBLEM, {}))
    with pytest.raises(RateLimited) as failed:
        await impatient.jobs.get("job_1")
    assert failed.value.retry_after is None
    assert failed.value.is_temporary
    await hookfast.events.emit(TYPE, 1)


async def test_threads_share_a_client(served: ApiServer) -> None:
    with Hookfast(served.url, OPERATOR_KEY) as client:
        client_calls: list[Any] = []
        await asyncio.to_thread(client.event_types.put, TYPE)

        def emit() -> None:
            client_calls.extend(client.events.emit(TYPE, number)["id"] for number in range(10))

        threads = [threading.Thread(target=emit) for _ in range(4)]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(lambda: [thread.join() for thread in threads])
        assert len(set(client_calls)) == 40


async def test_a_forked_process_has_connections_of_its_own(served: ApiServer) -> None:
    """With gunicorn's `preload_app`, a client is created before the workers are forked."""
    script = f"""
import os, warnings
from hookfast_client import Hookfast
client = Hookfast({served.url!r}, os.environ["KEY"])
client.event_types.put({TYPE!r})
children = []
for child in range(2):
    if (pid := os.fork()) == 0:
        for number in range(5):
            client.events.emit({TYPE!r}, [child, number])
        os._exit(0)
    children.append(pid)
for number in range(5):
    client.events.emit({TYPE!r}, number)
assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
print(len(list(client.events.list())))
"""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script),
        env=os.environ | {"KEY": OPERATOR_KEY},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert out.decode().strip() == "15"


async def test_a_client_outlives_its_event_loop(served: ApiServer) -> None:
    client = AsyncHookfast(served.url, OPERATOR_KEY)

    async def put(client: AsyncHookfast, number: int) -> str:
        answer = await client.event_types.put(f"order.invoice.paid{number}")
        return answer["name"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the loops end without their connections
        for number in range(2):
            name = await asyncio.to_thread(asyncio.run, put(client, number))
            assert name == f"order.invoice.paid{number}"
        await client.aclose()
        del client
        gc.collect()
