"""How often a live part is rendered."""

from __future__ import annotations

import pytest

from api.site.live import refresh_delay


@pytest.mark.parametrize(
    ("every", "took", "seconds"),
    [
        (3.0, 0.0, 3.0),
        (3.0, 0.15, 3.0),  # 20 * 0.15
        (3.0, 0.2, 4.0),
        (1.0, 0.2, 4.0),  # a rendering takes at most a 20th of the time
        (3.0, 30.0, 30.0),
    ],
)
def test_slow_live_parts_are_rendered_less_often(every: float, took: float, seconds: float) -> None:
    assert refresh_delay(every, took=took) == pytest.approx(seconds)
