"""The tests' receiver's hostile and invalid answers.

| path                          | what it does
|-------------------------------|-----------------------------
| `/gzip-bomb`                  | 200, `Content-Encoding: gzip`, 50 MB of zeros in 50 kB
| `/wire/<percent-encoded>`     | exactly these bytes, then silence (with `?close`: then the end)
| `/cut/<n>`                    | the first n bytes of an answer, then the end (`?reset`: a reset)
| `/drip-headers/<seconds>`     | one header byte per interval, forever
| `/drip-body/<seconds>`        | headers, then one body byte per interval, forever
| `/endless-body`               | an endless body, as fast as possible
| `/declared-body/<bytes>`      | the same, with this `Content-Length`
| `/endless-chunks`             | endless chunks of one byte
| `/endless-chunk-line`         | a chunk's size line that never ends
| `/endless-trailers`           | endless trailers after the last chunk
| `/endless-interim/<seconds>`  | `102 Processing` per interval, forever
| `/huge-header`                | a header of 300 kB
| `/garbage`                    | an SSH banner
| `/conflicting-lengths`        | two different `Content-Length`
| `/upgrade`                    | 101 without a request for it
| `/close`                      | closes without an answer
| `/close-mid-headers`, `/close-mid-body` | closes in the middle
| `/close-after`                | 200 with keep-alive, then closes
| `/extra`, `/extra-chunked`    | 200, and a second answer without a request
| `/extra-no-content`           | 204 with a body
| `/blank-lines`                | 200 with a chunk of 30,000 empty lines
| `/reset-early`                | reset when the headers have come, the body unread
| `/reset`, `/reset-mid-body`   | reset when the request has come; in the middle of the answer
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from functools import cache
from urllib.parse import unquote_to_bytes

from tests.support.receiver_call import Behaviour, Call, head

CUT_ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
"""The answer whose first bytes `/cut` sends."""


async def _wire(call: Call) -> None:
    call.raw(unquote_to_bytes(call.argument))
    if "close" in call.query:
        call.close()
    await asyncio.Event().wait()


async def _cut(call: Call) -> None:
    call.raw(CUT_ANSWER[: int(call.argument)])
    if "reset" in call.query:
        await asyncio.sleep(0.02)  # so that the bytes arrive: a reset discards unread bytes
        call.reset()
    call.close()


async def _gzip_bomb(call: Call) -> None:
    call.answer(200, _bomb(), Content_Encoding="gzip")


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(50_000_000), compresslevel=9)


async def _drip_headers(call: Call) -> None:
    call.raw(b"HTTP/1.1 200 OK\r\nX-Drip: ")
    await call.drip(b"x", float(call.argument))


async def _drip_body(call: Call) -> None:
    call.raw(head(200, {"Content-Length": "1000000"}))
    await call.drip(b"x", float(call.argument))


async def _endless_body(call: Call) -> None:
    call.raw(head(200, {}))
    await call.flood(b"x")


async def _declared_body(call: Call) -> None:
    call.raw(head(200, {"Content-Length": call.argument}))
    await call.flood(b"x")


async def _endless_chunks(call: Call) -> None:
    call.raw(head(200, {"Transfer-Encoding": "chunked"}))
    await call.flood(b"1\r\nx\r\n")


async def _endless_chunk_line(call: Call) -> None:
    call.raw(head(200, {"Transfer-Encoding": "chunked"}) + b"1;x=")
    await call.flood(b"x")


async def _endless_trailers(call: Call) -> None:
    call.raw(head(200, {"Transfer-Encoding": "chunked"}) + b"0\r\n")
    await call.flood(b"X-Trailer: x\r\n")


async def _endless_interim(call: Call) -> None:
    while True:
        call.raw(b"HTTP/1.1 102 Processing\r\n\r\n")
        await call.writer.drain()
        await asyncio.sleep(float(call.argument))


async def _huge_header(call: Call) -> None:
    call.answer(200, X_Huge="x" * 300_000)


async def _garbage(call: Call) -> None:
    call.raw(b"SSH-2.0-OpenSSH_9.9\r\n")


async def _conflicting_lengths(call: Call) -> None:
    call.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!")


async def _upgrade(call: Call) -> None:
    call.raw(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")


async def _close(call: Call) -> None:
    call.close()


async def _close_mid_headers(call: Call) -> None:
    call.raw(b"HTTP/1.1 200 OK\r\nContent-")
    call.close()


async def _close_mid_body(call: Call) -> None:
    call.raw(head(200, {"Content-Length": "100"}) + b"half")
    call.close()


async def _close_after(call: Call) -> None:
    call.answer(200, b"ok")
    call.close()


async def _extra(call: Call) -> None:
    call.answer(200, b"ok")
    call.answer(200, b"forged")


async def _extra_chunked(call: Call) -> None:
    call.raw(
        head(200, {"Transfer-Encoding": "chunked"})
        + b"4\r\no\n\nk\r\n0\r\nX-Trailer: x\r\n\r\n"
        + head(200, {"Content-Length": "6"})
        + b"forged"
    )


async def _extra_no_content(call: Call) -> None:
    call.answer(204, b"forged\n")


async def _blank_lines(call: Call) -> None:
    call.raw(
        head(200, {"Transfer-Encoding": "chunked"})
        + b"7530\r\n"
        + b"\n" * 30_000
        + b"\r\n0\r\n\r\n"
    )


async def _reset(call: Call) -> None:
    call.reset()


async def _reset_mid_body(call: Call) -> None:
    call.raw(head(200, {"Content-Length": "100"}) + b"half")
    await asyncio.sleep(0.05)  # so that the half arrives: a reset discards unread bytes
    call.reset()


MISBEHAVIOUR: Mapping[str, Behaviour] = {
    "blank-lines": _blank_lines,
    "close": _close,
    "close-after": _close_after,
    "close-mid-body": _close_mid_body,
    "close-mid-headers": _close_mid_headers,
    "conflicting-lengths": _conflicting_lengths,
    "cut": _cut,
    "declared-body": _declared_body,
    "drip-body": _drip_body,
    "drip-headers": _drip_headers,
    "endless-body": _endless_body,
    "endless-chunk-line": _endless_chunk_line,
    "endless-chunks": _endless_chunks,
    "endless-interim": _endless_interim,
    "endless-trailers": _endless_trailers,
    "extra": _extra,
    "extra-chunked": _extra_chunked,
    "extra-no-content": _extra_no_content,
    "garbage": _garbage,
    "gzip-bomb": _gzip_bomb,
    "huge-header": _huge_header,
    "reset": _reset,
    "reset-early": _reset,
    "reset-mid-body": _reset_mid_body,
    "upgrade": _upgrade,
    "wire": _wire,
}
