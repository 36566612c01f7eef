"""The deliveries that the demo shows, read from the API as any dashboard would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hookfast.deliveries.outcome import DeliveryStatus
from hookfast_client import AsyncHookfast


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A delivery, with the receiver's last `answer` and the `url` of its workflow in the UI."""

    id: str
    endpoint_id: str
    event_type: str
    receiver: str
    status: DeliveryStatus
    attempts: int
    answer: str
    next_at: datetime | None
    url: str | None
    updated_at: str

    @property
    def recovered(self) -> bool:
        """Whether the delivery was delivered after a retry."""
        return self.status is DeliveryStatus.DELIVERED and self.attempts > 1

    @property
    def is_notable(self) -> bool:
        """Whether the delivery is more than waiting, or delivered at the first attempt."""
        return self.attempts > 1 or self.status not in (
            DeliveryStatus.DELIVERED,
            DeliveryStatus.PENDING,
        )


class Board:
    """The deliveries of a tenant that were created since `since`."""

    def __init__(
        self,
        hookfast: AsyncHookfast,
        tenant_id: str,
        *,
        names: Mapping[str, str],
        since: datetime,
    ) -> None:
        self._deliveries = hookfast.deliveries
        self._tenant_id = tenant_id
        self._since = since
        self._names = names
        self._lines: dict[str, Line] = {}

    async def refresh(self) -> list[Line]:
        """Read the deliveries, and return the lines that changed, oldest change first."""
        changed = []
        listed = self._deliveries.list(tenant_id=self._tenant_id, since=self._since)
        page = await anext(listed.pages())
        for delivery in page.data:
            known = self._lines.get(delivery["id"])
            if known is None or known.updated_at != delivery["updated_at"]:
                detail = await self._deliveries.get(delivery["id"])
                self._lines[delivery["id"]] = line = self._line(detail)
                changed.append(line)
        return sorted(changed, key=lambda line: line.updated_at)

    def counts(self) -> Counter[DeliveryStatus]:
        """Return the number of deliveries by status."""
        return Counter(line.status for line in self._lines.values())

    def recovered(self) -> int:
        """Return how many deliveries were delivered after a retry."""
        return sum(line.recovered for line in self._lines.values())

    def lines(self) -> list[Line]:
        """Return all lines, newest first."""
        return sorted(self._lines.values(), key=lambda line: line.id, reverse=True)

    def newest(self, limit: int) -> list[Line]:
        """Return at most `limit` lines, newest first. Notable ones stay longer, in half of them."""
        lines = self.lines()
        rare = [line for line in lines if line.status in (DeliveryStatus.DEAD, DeliveryStatus.GONE)]
        notable = rare[:2] + [line for line in lines if line.is_notable and line not in rare[:2]]
        kept = {line.id for line in notable[: limit // 2]}
        for line in lines:
            if len(kept) >= limit:
                break
            kept.add(line.id)
        return [line for line in lines if line.id in kept]

    def _line(self, delivery: Mapping[str, Any]) -> Line:
        due = delivery["next_attempt_at"]
        return Line(
            id=delivery["id"],
            endpoint_id=delivery["endpoint_id"],
            event_type=delivery["event_type"],
            receiver=self._names.get(delivery["endpoint_id"], "?"),
            status=DeliveryStatus(delivery["status"]),
            attempts=delivery["attempt_count"],
            answer=_answer(delivery["attempts"]),
            next_at=None if due is None else datetime.fromisoformat(due),
            url=delivery["workflow"]["url"],
            updated_at=delivery["updated_at"],
        )


def _answer(attempts: Sequence[Mapping[str, Any]]) -> str:
    if not attempts:
        return ""
    last = attempts[-1]
    return f"{last['status_code'] or last['result']} in {last['duration_ms']:.0f} ms"
