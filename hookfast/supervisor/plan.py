"""What an `up` is to run, as the settings decide it: plain values that fit into a command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalPlan:
    """The Temporal dev server to run: its binary, the ports to try first, and what to register
    (`search_attributes`, each as `Name=Type`)."""

    binary: str
    port: int
    ui_port: int
    namespace: str
    search_attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The processes to run and where. `temporal` is None where another Temporal is used;
    `worker_grace` is the time that a worker has to end, in seconds. Holds no secret: those stay in
    the environment."""

    home: str
    host: str
    port: int
    api_processes: int
    workers: int
    worker_metrics_port: int
    worker_grace: float
    temporal: TemporalPlan | None
    temporal_ui_url: str | None
    log_format: str
    log_level: str

    def dumped(self) -> str:
        """This plan as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def loaded(cls, text: str) -> Self:
        """The plan that `dumped` wrote."""
        members = json.loads(text)
        temporal = members.pop("temporal")
        if temporal is not None:
            attributes = tuple(temporal.pop("search_attributes"))
            temporal = TemporalPlan(**temporal, search_attributes=attributes)
        return cls(**members, temporal=temporal)
