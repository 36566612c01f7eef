"""The test receiver's answers that are valid HTTP, whatever their status.

| path                          | answer
|-------------------------------|-----------------------------
| `/ok`, or anything not listed | 200, body `ok`
| `/status/<n>`                 | that status, body `status <n>`
| `/slow/<seconds>`             | 200 (or `?status=`) after that time
| `/echo`                       | 200 with the request's body
| `/repeat`                     | 200 (or `?status=`) with the request's headers, also as JSON
| `/body/<bytes>`               | 200 with a body of that many `x`
| `/chunks/<n>`                 | 200 in n chunks of one byte
| `/raw/<percent-encoded>`      | 200 with exactly these bytes as its body
| `/retry-after/<value>`        | 503 (or `?status=`) with that `Retry-After`
| `/redirect`                   | 302 (or `?status=`) to `/ok` (or `?to=`)
| `/fail-first/<n>`             | 500 for the first n requests of each message id, then 200
| `/down-for/<n>`               | 500 for the first n requests, whatever their message ids, then 200
| `/flapping/<percent>`         | 500 for that share of requests, the same ones in every run
| `/challenge`                  | 200 with the request's `X-Hook-Challenge`
| `/fixed-challenge/<value>`    | 200 with this `X-Hook-Challenge`
| `/challenge-query`            | 200 with the query parameter `challenge` as the body
| `/cookie`                     | 200 with a `Set-Cookie`
| `/redirect-loop`              | 302 to itself
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, unquote_to_bytes, urlsplit

from tests.support.receiver_call import Behaviour, Call, head


async def _ok(call: Call) -> None:
    call.answer(200, b"ok")


async def _status(call: Call) -> None:
    status = int(call.argument)
    call.answer(status, b"" if status in (204, 304) else f"status {status}".encode())


async def _slow(call: Call) -> None:
    await asyncio.sleep(float(call.argument))
    call.answer(int(call.query.get("status", ["200"])[0]), b"slow")


async def _echo(call: Call) -> None:
    call.answer(200, call.request.body)


async def _repeat(call: Call) -> None:
    sent = call.request.raw_headers
    headers = {f"X-Got-{name}": value for name, value in sent if name != "Connection"}
    body = json.dumps({"headers": dict(sent), "user": _user(call.request.headers)}).encode()
    status = int(call.query.get("status", ["200"])[0])
    call.raw(head(status, headers | {"Content-Length": str(len(body))}) + body)


def _user(headers: Mapping[str, str]) -> str | None:
    """Return the user and the password of the authorization scheme Basic."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    return base64.b64decode(credentials).decode() if scheme == "Basic" else None


async def _body(call: Call) -> None:
    call.answer(200, b"x" * int(call.argument))


async def _chunks(call: Call) -> None:
    chunks = b"1\r\nx\r\n" * int(call.argument)
    call.raw(head(200, {"Transfer-Encoding": "chunked"}) + chunks + b"0\r\n\r\n")


async def _raw(call: Call) -> None:
    call.answer(200, unquote_to_bytes(call.argument))


async def _retry_after(call: Call) -> None:
    status = int(call.query.get("status", ["503"])[0])
    call.answer(status, b"later", Retry_After=unquote(call.argument))


async def _redirect(call: Call) -> None:
    status = int(call.query.get("status", ["302"])[0])
    call.answer(status, Location=call.query.get("to", [f"{call.origin}/ok"])[0])


async def _redirect_loop(call: Call) -> None:
    call.answer(302, Location=call.request.path)


async def _fail_first(call: Call) -> None:
    number = call.count("fail-first", call.request.path, call.request.message_id)
    fails = number <= int(call.argument)
    call.answer(500 if fails else 200, b"not yet" if fails else b"ok")


async def _down_for(call: Call) -> None:
    down = call.count(f"down-for/{call.argument}") <= int(call.argument)
    call.answer(500 if down else 200, b"down" if down else b"ok")


async def _flapping(call: Call) -> None:
    number = call.count(f"flapping/{call.argument}")
    fails = random.Random(f"request {number}").random() * 100 < float(call.argument)
    call.answer(500 if fails else 200, b"down" if fails else b"up")


async def _challenge(call: Call) -> None:
    call.answer(200, X_Hook_Challenge=call.request.headers.get("x-hook-challenge", ""))


async def _fixed_challenge(call: Call) -> None:
    call.answer(200, X_Hook_Challenge=call.argument)


async def _challenge_query(call: Call) -> None:
    query = parse_qs(urlsplit(call.request.path).query)
    call.answer(200, query.get("challenge", [""])[0].encode())


async def _cookie(call: Call) -> None:
    call.answer(200, b"ok", Set_Cookie="session=1")


ANSWERS: Mapping[str, Behaviour] = {
    "body": _body,
    "challenge": _challenge,
    "challenge-query": _challenge_query,
    "chunks": _chunks,
    "cookie": _cookie,
    "down-for": _down_for,
    "echo": _echo,
    "fail-first": _fail_first,
    "fixed-challenge": _fixed_challenge,
    "flapping": _flapping,
    "ok": _ok,
    "raw": _raw,
    "redirect": _redirect,
    "redirect-loop": _redirect_loop,
    "repeat": _repeat,
    "retry-after": _retry_after,
    "slow": _slow,
    "status": _status,
}
