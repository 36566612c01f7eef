"""The plan of `up`: the processes to run, as plain values that fit into a command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalPlan:
    """The Temporal dev server to run: its binary, the ports to try first, and the search attributes
    to register (each as `Name=Type`)."""

    binary: str
    port: int
    ui_port: int
    namespace: str
    search_attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The processes to run, and their addresses. `temporal` is None if another Temporal is used;
    `workers` run always, and up to `most_workers` while those are busy; `worker_grace` is the time
    in which a worker has to end, in seconds. The plan has no secrets: they stay in the
    environment."""

    home: str
    host: str
    port: int
    api_processes: int
    workers: int
    most_workers: int
    worker_metrics_port: int
    worker_grace: float
    temporal: TemporalPlan | None
    temporal_ui_url: str | None
    log_format: str
    log_level: str

    def to_json(self) -> str:
        """Return this plan as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the plan that `to_json` wrote."""
        members = json.loads(text)
        temporal = members.pop("temporal")
        if temporal is not None:
            attributes = tuple(temporal.pop("search_attributes"))
            temporal = TemporalPlan(**temporal, search_attributes=attributes)
        return cls(**members, temporal=temporal)
