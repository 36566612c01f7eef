"""An in-memory store for tests, and for receivers that may forget messages at a restart."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from .errors import LeaseLost, Misconfigured, StoreFull
from .store import Begun, Done, Fresh, InProgress


@dataclass(slots=True)
class _Entry:
    token: str
    expires_at: float
    result: bytes | None  # None: in progress


class MemoryStore:
    """Stores at most `max_entries`. When full, it forgets expired entries, then the oldest finished
    ones. It never forgets messages in progress or entries of a replay guard; without any other, it
    raises StoreFull."""

    def __init__(
        self, *, max_entries: int = 100_000, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        if max_entries < 1:
            raise Misconfigured("max_entries must be at least 1")
        self._max_entries = max_entries
        self._monotonic = monotonic
        self._entries: dict[str, _Entry] = {}
        self._done: dict[str, None] = {}  # keys in the order in which they were finished
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self, key: str, *, lease: timedelta) -> Begun:
        with self._lock:
            now = self._monotonic()
            entry = self._entries.get(key)
            if entry is not None and entry.expires_at > now:
                return InProgress() if entry.result is None else Done(entry.result)
            if entry is not None:
                self._forget(key)
            self._make_room(now)
            claim = Fresh(key=key, token=secrets.token_hex(16))
            self._entries[key] = _Entry(claim.token, now + lease.total_seconds(), None)
            return claim

    def finish(self, claim: Fresh, result: bytes = b"", *, keep: timedelta) -> None:
        with self._lock:
            now = self._monotonic()
            entry = self._entries.get(claim.key)
            # without checking the limit: finished work must always be recorded
            if entry is not None and entry.token != claim.token:
                raise LeaseLost("another worker took this message over: use a longer lease")
            expires_at = now + keep.total_seconds()
            self._entries[claim.key] = _Entry(claim.token, expires_at, result)
            self._done[claim.key] = None

    def abandon(self, claim: Fresh) -> None:
        with self._lock:
            entry = self._entries.get(claim.key)
            if entry is not None and entry.token == claim.token and entry.result is None:
                self._forget(claim.key)

    def _make_room(self, now: float) -> None:
        if len(self._entries) < self._max_entries:
            return
        for key in [key for key, entry in self._entries.items() if entry.expires_at <= now]:
            self._forget(key)
        if len(self._entries) >= self._max_entries:
            # a tenth at once, so that a full store does not search all entries each time
            for key in list(self._done)[: max(1, self._max_entries // 10)]:
                self._forget(key)
        if len(self._entries) >= self._max_entries:
            raise StoreFull(
                f"all {self._max_entries} messages in the store are in progress: raise max_entries,"
                " or use a store outside the process"
            )

    def _forget(self, key: str) -> None:
        del self._entries[key]
        self._done.pop(key, None)
