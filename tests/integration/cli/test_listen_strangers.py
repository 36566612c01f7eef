"""`listen` when another server answers: a wrong URL is an error, and a proxy's page while the
service is unreachable is waited out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from urllib.parse import quote

import pytest

from hookfast.cli.remote.api import Api, NotHookfast
from hookfast.cli.remote.listen.stream import Connected, Lost, Message, StreamItem, read_stream
from tests.integration.cli.conftest import Run
from tests.support.api_client import OPERATOR_KEY
from tests.support.receiver import Receiver
from tests.support.waiting import PATIENCE, within

pytestmark = pytest.mark.anyio

_PATH = "/v1/stream"


def _wire(head: str, body: str) -> str:
    return f"/wire/{quote(f'HTTP/1.1 200 OK{head}', safe='')}{quote(body, safe='')}?close"


_STREAM = _wire(
    "\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n",
    'id: c1\nevent: event\ndata: {"id":"evt_1"}\n\n',
)
_PAGE = _wire("\r\nContent-Type: text/html\r\n\r\n", "<p>We will be back soon.</p>")


async def test_another_server_is_reported_after_one_request(
    hookfast: Run, receiver: Receiver
) -> None:
    receiver.routes[_PATH] = _PAGE
    ended = await hookfast("listen", "--url", receiver.url(""))
    assert ended.code == 1
    assert "and not with a stream of events. Is HOOKFAST_URL right?" in ended.error_text
    assert len(receiver.requests) == 1


async def test_page_instead_of_the_stream_is_retried_after_a_connection(receiver: Receiver) -> None:
    api = Api(receiver.url(""), key=OPERATOR_KEY, key_origin="here")
    receiver.routes[_PATH] = _STREAM
    async with aclosing(read_stream(api, (), after=None)) as happenings:
        assert await _next(happenings) == Connected()
        assert isinstance(await _next(happenings), Message)
        assert isinstance(await _next(happenings), Lost)
        receiver.routes[_PATH] = _PAGE
        lost = await _next(happenings)
        assert isinstance(lost, Lost)
        assert "not with a stream of events" in lost.why
        receiver.routes[_PATH] = _STREAM
        assert await _next(happenings) == Connected()
    assert receiver.requests[-1].headers["last-event-id"] == "c1"
    api.close()


async def test_page_before_the_first_connection_is_a_wrong_url(receiver: Receiver) -> None:
    api = Api(receiver.url(""), key=OPERATOR_KEY, key_origin="here")
    receiver.routes[_PATH] = _PAGE
    async with aclosing(read_stream(api, (), after=None)) as happenings:
        with pytest.raises(NotHookfast):
            await _next(happenings)
    api.close()


async def _next(happenings: AsyncIterator[StreamItem]) -> StreamItem:
    async def one() -> StreamItem:
        return await anext(happenings)

    return await within(PATIENCE, one())
