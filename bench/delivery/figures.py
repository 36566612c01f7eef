"""The figures of a run: plain values, for `--json` and the report.

Rates are deliveries per second, CPU is milliseconds per delivery, latencies are milliseconds."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from bench.parts import part_kind

BESIDE = ("sink", "load generator")
"""Processes that are not part of the service."""
FLOOR = "floor"
BATCHES = "batch emits"
SINGLES = "single emits"
FAN_OUT = "fan-out"


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A summary of latencies."""

    count: int
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the nearest ranks of at least one value."""
        ranked = sorted(values)

        def rank(share: float) -> float:
            return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

        return cls(len(ranked), rank(0.50), rank(0.95), rank(0.99), ranked[-1])


@dataclass(slots=True)
class Side:
    """The rounds of one side: deliveries per second, CPU milliseconds per delivery by process, and
    the cores that other processes kept busy."""

    name: str
    rates: list[float] = field(default_factory=list)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    elsewhere: list[float] = field(default_factory=list)

    def add(
        self, count: int, seconds: float, cpu: dict[str, float], *, elsewhere: float = 0.0
    ) -> None:
        """Add a round: its deliveries, and the CPU seconds by process. Processes of one kind are
        added up."""
        self.rates.append(count / seconds)
        self.elsewhere.append(elsewhere)
        kinds: dict[str, float] = {}
        for process, spent in cpu.items():
            kind = part_kind(process)
            kinds[kind] = kinds.get(kind, 0.0) + spent
        for kind, spent in kinds.items():
            self.cpu.setdefault(kind, []).append(spent / count * 1000)

    @property
    def rate(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rates)

    def cpu_of(self, process: str) -> float:
        """The median of the rounds; 0 for a process that this side does not have."""
        return statistics.median(self.cpu.get(process, [0.0]))

    @property
    def service_cpu(self) -> float:
        """CPU of all processes except the sink and the load generator."""
        return sum(self.cpu_of(process) for process in self.cpu if process not in BESIDE)


@dataclass(slots=True)
class Rates:
    """The sides of a mode, by name. Their rounds were measured in turns with the floor."""

    database: str
    mode: str
    sides: dict[str, Side]

    @property
    def floor(self) -> Side:
        """The floor's rounds."""
        return self.sides[FLOOR]

    def multiple(self, side: str) -> float:
        """The side's rate in multiples of the floor's of the same turn, the median of the turns."""
        pairs = zip(self.sides[side].rates, self.floor.rates, strict=False)
        return statistics.median(rate / floor for rate, floor in pairs)

    def cpu_multiple(self, side: str) -> float:
        """The service's CPU per delivery in multiples of the floor's."""
        return self.sides[side].service_cpu / self.floor.service_cpu


@dataclass(frozen=True, slots=True)
class Latency:
    """Single events at a fixed rate. `of_capacity` is the rate as a share of the mode's capacity,
    None if the rate was given. `floor` is deliveries per second, `elsewhere` the cores that other
    processes kept busy."""

    database: str
    mode: str
    rate: float
    of_capacity: float | None
    floor: float
    accept: Quantiles
    arrive: Quantiles
    cpu: dict[str, float]
    elsewhere: float

    @property
    def service_cpu(self) -> float:
        """Milliseconds of CPU for each delivery, without the sink and the load generator."""
        return sum(spent for process, spent in self.cpu.items() if process not in BESIDE)


@dataclass(frozen=True, slots=True)
class Burst:
    """Single events at a rate above the floor. When the last one was due, `waiting` deliveries had
    not arrived, the oldest of them emitted `oldest_seconds` before."""

    database: str
    mode: str
    rate: float
    seconds: float
    floor: float
    accept: Quantiles
    arrive: Quantiles
    waiting: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Fairness:
    """Seconds from emit to sink. `singles`: another tenant's events, one at a time, the first
    behind `waiting` deliveries. `new_…`: the first delivery to each of `new_endpoints` endpoints of
    the same tenant, behind `new_waiting` deliveries to another endpoint."""

    database: str
    mode: str
    waiting: int
    singles: list[float]
    new_endpoints: int
    new_deliveries: int
    new_waiting: int
    new_first: float
    new_median: float
    new_last: float


@dataclass(frozen=True, slots=True)
class BlackHole:
    """Latencies of healthy deliveries while one in ten goes to an endpoint that answers, or to one
    that never does. `multiples`: the ratio of the p99s, by turn."""

    database: str
    mode: str
    rate: float
    without: Quantiles
    behind: Quantiles
    multiples: list[float]
    swallowed: int


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB of each process of `hookfast up`, at the start and after the deliveries, and the maximum
    of all together."""

    database: str
    mode: str
    measure: str
    deliveries: int
    start: dict[str, float]
    after: dict[str, float]
    most: float


@dataclass(frozen=True, slots=True)
class Posts:
    """Requests to one kind of receiver: microseconds of a worker's CPU for each, and how many were
    sent, sent once more because their connection ended, and failed."""

    receiver: str
    microseconds: float
    sent: int
    repeated: int
    failed: int


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A part that could not be measured, and why."""

    part: str
    why: str


@dataclass(slots=True)
class Figures:
    """All figures of a run so far."""

    machine: dict[str, Any] = field(default_factory=dict)
    rates: list[Rates] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    burst: list[Burst] = field(default_factory=list)
    fairness: list[Fairness] = field(default_factory=list)
    black_hole: list[BlackHole] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    receivers: list[Posts] = field(default_factory=list)
    unmeasured: list[Unmeasured] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dump`, with the multiples computed from the rates."""
        plain = dataclasses.asdict(self)
        for members, rates in zip(plain["rates"], self.rates, strict=True):
            products = [name for name, side in rates.sides.items() if side.rates and name != FLOOR]
            members["multiples"] = {name: rates.multiple(name) for name in products}
            members["cpu_multiples"] = {name: rates.cpu_multiple(name) for name in products}
        return plain
