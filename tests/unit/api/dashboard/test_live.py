"""How often a live part looks."""

from __future__ import annotations

import pytest

from api.dashboard.site.live import pause


@pytest.mark.parametrize(
    ("every", "took", "seconds"),
    [
        (3.0, 0.0, 3.0),
        (3.0, 0.15, 3.0),  # 20 * 0.15
        (3.0, 0.2, 4.0),
        (1.0, 0.2, 4.0),  # whatever it would be otherwise, a look takes a 20th of the time
        (3.0, 30.0, 30.0),
    ],
)
def test_looks_that_take_long_are_rarer(every: float, took: float, seconds: float) -> None:
    assert pause(every, took=took) == pytest.approx(seconds)
