"""How far a request has come: what its deadline's message and the reading of its answer go by.

httpx2's transport interface stands between the sender and the code that dials and reads, and passes
on nothing of a request that changes as it goes. All of a request runs in the task that sent it, so
a context variable does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where a request stands; the value ends the sentence 'No answer within 5 s: …'."""

    QUEUED = "every connection to {peer} stayed in use by other requests."
    RESOLVING = "the name {peer} did not resolve in time."
    CONNECTING = "the connection to {peer} did not open in time."
    HANDSHAKE = "the TLS handshake with {peer} did not finish in time."
    CONFIRMING = "nothing was sent: whether it still may be was not answered in time."
    WAITING = "{peer} took the connection but did not answer in time."
    HEADERS = "{peer} began its answer but did not finish the headers in time."
    BODY = "{peer} sent its headers but did not finish the body in time."


@dataclass(slots=True)
class Progress:
    """Updated as the request goes. `ended` tells that the peer has ended the connection; `confirm`
    is asked when the connection is open and nothing of the request was sent, and raises where it
    must not be."""

    phase: Phase = Phase.QUEUED
    ended: bool = False
    confirm: Callable[[], Awaitable[None]] | None = None


_current: ContextVar[Progress] = ContextVar("progress")


def begin_progress(confirm: Callable[[], Awaitable[None]] | None = None) -> Progress:
    """The progress of a request that this task now begins."""
    progress = Progress(confirm=confirm)
    _current.set(progress)
    return progress


def current_progress() -> Progress:
    """The progress of the request that this task is sending."""
    return _current.get()
