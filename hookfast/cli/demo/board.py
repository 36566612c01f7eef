"""What the demo knows about its deliveries, read from the API as any dashboard would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hookfast.cli.demo.client import Api
from hookfast.clock import rfc3339
from hookfast.deliveries.outcome import DeliveryStatus

_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One delivery. `answer` is what the receiver said last; `url` its workflow in the UI."""

    id: str
    event_type: str
    receiver: str
    status: DeliveryStatus
    attempts: int
    answer: str
    next_at: datetime | None
    url: str | None
    updated_at: str

    @property
    def eventful(self) -> bool:
        """Whether there is more to it than one attempt that was delivered."""
        return self.attempts > 1 or self.status not in (
            DeliveryStatus.DELIVERED,
            DeliveryStatus.PENDING,
        )


class Board:
    """The deliveries of a tenant since `since`, newest first."""

    def __init__(
        self, api: Api, tenant_id: str, *, names: Mapping[str, str], since: datetime
    ) -> None:
        self._api = api
        self._query = {"tenant_id": tenant_id, "since": rfc3339(since), "limit": _PAGE}
        self._names = names
        self._lines: dict[str, Line] = {}

    async def refresh(self) -> list[Line]:
        """Read what changed; gives the lines that did, oldest change first."""
        changed = []
        page = await self._api.get("/deliveries", **self._query)
        for delivery in page["data"]:
            known = self._lines.get(delivery["id"])
            if known is None or known.updated_at != delivery["updated_at"]:
                detail = await self._api.get(f"/deliveries/{delivery['id']}")
                self._lines[delivery["id"]] = line = self._line(detail)
                changed.append(line)
        return sorted(changed, key=lambda line: line.updated_at)

    def counts(self) -> Counter[DeliveryStatus]:
        """How many deliveries have which status."""
        return Counter(line.status for line in self._lines.values())

    def recovered(self) -> int:
        """How many were delivered after a retry."""
        return sum(
            line.status is DeliveryStatus.DELIVERED and line.attempts > 1
            for line in self._lines.values()
        )

    def newest(self, limit: int) -> list[Line]:
        """At most `limit` lines, newest first; the eventful ones stay longer, on half the board."""
        lines = sorted(self._lines.values(), key=lambda line: line.id, reverse=True)
        rare = [line for line in lines if line.status in (DeliveryStatus.DEAD, DeliveryStatus.GONE)]
        eventful = rare[:2] + [line for line in lines if line.eventful and line not in rare[:2]]
        kept = {line.id for line in eventful[: limit // 2]}
        for line in lines:
            if len(kept) >= limit:
                break
            kept.add(line.id)
        return [line for line in lines if line.id in kept]

    def _line(self, delivery: Mapping[str, Any]) -> Line:
        due = delivery["next_attempt_at"]
        return Line(
            id=delivery["id"],
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
    said = last["status_code"] or last["result"]
    return f"{said} in {last['duration_ms']:.0f} ms"
