"""How the machine is divided between the parts, so that the workers are the limit."""

from __future__ import annotations

from bench.scaling.figures import WORKER, Point

_USED = 0.7
"""Part of their shares that the others should use while the most workers are full."""
_LEAST = 0.05
_MOST_OF_WORKER = 0.9  # a worker is one Python process, which uses one core at most


def divide(trial: Point, *, workers: int, cores: float) -> dict[str, float]:
    """Return the cores of each part, and of each of `workers` workers, from what each delivery
    cost in a trial without limits. Together they use `cores`."""
    costs = {name: trial.milliseconds(name) / 1000 for name in trial.uses}
    worker = costs.pop(WORKER)
    rate = min(
        cores / (worker + sum(costs.values()) / _USED),
        workers * _MOST_OF_WORKER / worker,
    )
    shares = {name: rate * cost / _USED for name, cost in costs.items()}
    shares[WORKER] = rate * worker / workers
    return {name: max(_LEAST, round(share, 2)) for name, share in shares.items()}
