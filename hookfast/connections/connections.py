"""All connections of one server: the limits of their number, and of the time that each may take.

When a new connection would be one too many, the one that has waited longest without a request is
closed for it: first of those that have not sent one yet, which cost an attacker nothing, then of
the idle ones. A connection with a request in progress is never closed for another one; if there are
only such, the new connection is answered with 503.

One timer for all connections closes those that are late: a request's head that does not arrive, a
connection that is idle for too long, and an answer that is not read. Streams rely on it too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hookfast.connections import answers
from hookfast.connections.closings import Closings, Reason
from hookfast.connections.connection import Connection, Group, Phase
from hookfast.connections.counted_transport import CountedTransport
from hookfast.telemetry import instruments

HEAD_SECONDS: Final = 20.0
_LONGEST_ROUND_SECONDS: Final = 1.0
_REFUSED_SECONDS: Final = 1.0
_REFUSED_AT_ONCE: Final = 64
"""A refused connection is closed when its request has arrived: if it were closed before, the system
would reset it, and many clients would not see the answer. Of more than this, the oldest is closed
at once."""

SiteOf = Callable[[str | None], str | None]
"""Returns the site of a peer's address; None if it is not known whose connections these are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections a server may have, and the seconds that each has for what it does."""

    total: int
    per_client: int
    """For one client's site."""
    head_seconds: float = HEAD_SECONDS
    """For a whole request line and all header fields."""
    idle_seconds: float
    unread_seconds: float
    """For 4 KiB of an answer per second of these; see `Connection.is_unread`."""

    @property
    def round_seconds(self) -> float:
        """How often to look which connections are late."""
        least = min(self.head_seconds, self.idle_seconds, self.unread_seconds)
        return min(_LONGEST_ROUND_SECONDS, least / 4)


class Connections:
    """The connections of one server, in one event loop. `clock` is in seconds."""

    def __init__(
        self,
        limits: ConnectionLimits,
        *,
        site_of: SiteOf = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._site_of = site_of
        self._clock = clock
        self._closings = Closings(clock)
        self._all = Group(limits.total)
        self._sites: dict[str, Group] = {}
        self._open: set[Connection] = set()
        self._refused: dict[Connection, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._show()

    def enter(self, transport: CountedTransport, peer: str | None) -> Connection:
        """Count a new connection from this address. Its phase is REFUSED if there are too many."""
        site = self._site_of(peer)
        groups = (self._all,) if site is None else (self._of_site(site), self._all)
        connection = Connection(transport, site=site, groups=groups, clock=self._clock)
        if self._timer is None:
            self._timer = self._next_round()
        for group in groups:
            if group.size >= group.limit and not self._make_room(group):
                self._refuse(connection, group)
                return connection
        for group in groups:
            group.size += 1
        if site is not None:
            self._sites[site] = groups[0]
        self._open.add(connection)
        connection.start()
        return connection

    def leave(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        if connection.phase is Phase.REFUSED:
            self._refused.pop(connection, None)
        elif connection.phase is not Phase.ENDED:
            connection.end()
            self._open.discard(connection)
            for group in connection.groups:
                group.size -= 1
            if connection.site is not None and not connection.groups[0].size:
                del self._sites[connection.site]

    def drop(self, connection: Connection, reason: Reason | None, limit: int | None = None) -> None:
        """Close a connection, with everything that it has not sent. Without a reason, it is what
        clients expect, and is neither counted nor logged."""
        self.leave(connection)
        if connection.transport.unsent():
            connection.transport.reset()
        else:
            connection.transport.close()
        if reason is not None:
            self._closings.note(reason, connection.site, limit=limit)

    def reject(self, connection: Connection, reason: Reason, answer: bytes | None) -> None:
        """Answer a connection that sent what cannot be a request, if that is possible, and close
        it."""
        connection.answer()
        if answer is not None:
            connection.transport.write(answer)
        connection.transport.close()
        self._closings.note(reason, connection.site)

    def _of_site(self, site: str) -> Group:
        return self._sites.get(site) or Group(self._limits.per_client)

    def _make_room(self, group: Group) -> bool:
        victim = group.longest_waiting()
        if victim is None:
            return False
        starting = victim.phase is Phase.STARTING
        reason = Reason.MADE_ROOM_STARTING if starting else Reason.MADE_ROOM_IDLE
        self.drop(victim, reason, limit=group.limit)
        return True

    def _refuse(self, connection: Connection, group: Group) -> None:
        connection.phase = Phase.REFUSED
        connection.since = self._clock()
        connection.transport.write(answers.FULL)
        if len(self._refused) >= _REFUSED_AT_ONCE:
            self.drop(next(iter(self._refused)), None)
        self._refused[connection] = None
        self._closings.note(Reason.FULL, connection.site, limit=group.limit)

    def _next_round(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._limits.round_seconds, self._round)

    def _round(self) -> None:
        self._timer = self._next_round()
        self.close_late(self._clock())
        unlogged = self._closings.write_lines()
        self._show()
        if not (self._open or self._refused or unlogged):
            self._timer.cancel()
            self._timer = None

    def close_late(self, now: float) -> None:
        """Close the connections that did not do in time what they have to do."""
        limits = self._limits
        for queue, seconds in (
            (self._all.starting, limits.head_seconds),
            (self._all.idle, limits.idle_seconds),
            (self._refused, _REFUSED_SECONDS),
        ):
            while (first := next(iter(queue), None)) and now - first.since >= seconds:
                self.drop(first, _late(first))
        for connection in tuple(self._open):
            if connection.phase not in (Phase.ANSWERING, Phase.SENDING):
                continue
            if connection.is_unread(now, seconds=limits.unread_seconds):
                self.drop(connection, Reason.UNREAD_ANSWER)
            elif connection.phase is Phase.SENDING:
                connection.answered()

    def _show(self) -> None:
        starting, idle = len(self._all.starting), len(self._all.idle)
        for state, number in (
            ("starting", starting),
            ("answering", self._all.size - starting - idle),
            ("idle", idle),
        ):
            instruments.CONNECTIONS.set(number, state=state)


def _late(connection: Connection) -> Reason | None:
    if connection.phase is not Phase.STARTING:
        return None
    return Reason.SLOW_REQUEST if connection.heard else Reason.SILENT
