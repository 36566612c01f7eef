"""A store in Redis, Valkey or a compatible server (SET NX PX, EVAL)."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any, Protocol

from .errors import LeaseLost, Misconfigured
from .store import Begun, Done, Fresh, InProgress

# A value is `p` and the token while the message is in progress, then `d`, the token and the result.
_IN_PROGRESS = b"p"
_DONE = b"d"
_TOKEN_LENGTH = 32

# Compares and writes in one step: between a GET and a SET, the lease could expire and another
# worker take over. No value: the lease expired and nobody took over, but the work is done.
_FINISH = """
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 2, 33) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], 'd' .. ARGV[1] .. ARGV[2], 'PX', ARGV[3])
return 1
"""
_ABANDON = """
if redis.call('GET', KEYS[1]) == 'p' .. ARGV[1] then redis.call('DEL', KEYS[1]) end
return 0
"""


class RedisClient(Protocol):
    """The methods used of a `redis.Redis` or `valkey.Valkey` client."""

    def set(self, name: Any, value: Any, *, px: int | None = ..., nx: bool = ...) -> Any: ...

    def get(self, name: Any) -> Any: ...

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Any: ...


class RedisStore:
    """Stores each message under `prefix` and its key, which Redis deletes when it expires.

    It is only as durable as your Redis: after a crash that loses the last second, or a failover to
    a replica that lags behind, a message may be processed again. `client` must return bytes
    (`decode_responses=False`, the default).
    """

    def __init__(self, client: RedisClient, *, prefix: str = "hookfast:") -> None:
        pool = getattr(client, "connection_pool", None)
        if getattr(pool, "connection_kwargs", {}).get("decode_responses"):
            raise Misconfigured("use a client without decode_responses: results are bytes")
        self._client = client
        self._prefix = prefix

    def begin(self, key: str, *, lease: timedelta) -> Begun:
        claim = Fresh(key=key, token=secrets.token_hex(_TOKEN_LENGTH // 2))
        name = self._prefix + key
        value = _IN_PROGRESS + claim.token.encode()
        while True:
            if self._client.set(name, value, nx=True, px=_milliseconds(lease)):
                return claim
            found = self._client.get(name)
            if found is None:
                continue  # it expired between the two commands: claim it now
            if found == value:
                return claim  # our SET succeeded, but its response was lost and it was retried
            if found[:1] == _DONE:
                return Done(bytes(found[1 + _TOKEN_LENGTH :]))
            return InProgress()

    def finish(self, claim: Fresh, result: bytes = b"", *, keep: timedelta) -> None:
        arguments = (self._prefix + claim.key, claim.token, result, _milliseconds(keep))
        if not self._client.eval(_FINISH, 1, *arguments):
            raise LeaseLost("another worker took this message over: use a longer lease")

    def abandon(self, claim: Fresh) -> None:
        self._client.eval(_ABANDON, 1, self._prefix + claim.key, claim.token)


def _milliseconds(duration: timedelta) -> int:
    return max(1, int(duration.total_seconds() * 1000))  # Redis rejects 0
