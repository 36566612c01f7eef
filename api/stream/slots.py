"""The limit of streams that a process may have open at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hookfast.errors import TooManyRequests, Unavailable
from hookfast.slots import Slots

_RETRY_SECONDS = 10


class StreamSlots:
    """Slots for open streams. One tenant may take a quarter of them, and at least one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tenant_limit = max(1, limit // 4)
        self._slots = Slots(limit, most=self._tenant_limit)

    @property
    def taken(self) -> int:
        """The number of slots in use."""
        return self._limit - self._slots.free

    def check(self, tenant_id: str | None) -> None:
        """Raise the errors of `enter`, before work is done for a stream that gets no slot."""
        if tenant_id is not None and self._slots.share_is_used(tenant_id):
            raise TooManyRequests(
                f"This tenant already has {self._tenant_limit} open streams, its maximum; close "
                "one.",
                code="too_many_streams",
                retry_after=_RETRY_SECONDS,
            )
        if self._slots.free <= 0:
            raise Unavailable(
                "Too many streams are open; try again.",
                code="overloaded",
                retry_after=_RETRY_SECONDS,
            )

    @contextmanager
    def enter(self, tenant_id: str | None) -> Iterator[None]:
        """Take a slot until the block ends; `tenant_id` is None for the operator. Raises
        TooManyRequests (`too_many_streams`) if the tenant has used its share, and Unavailable
        (`overloaded`) if all slots are taken."""
        self.check(tenant_id)
        with self._slots.take(tenant_id):
            yield
