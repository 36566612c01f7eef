"""What the guide states is what the code does."""

from __future__ import annotations

from datetime import timedelta

import pytest

from api.portal.guide import (
    PAGES,
    RESULTS,
    SAMPLE_SECRET,
    example_request,
    neighbours,
    plan_rows,
    words,
)
from hookfast.deliveries.answer import answer_name
from hookfast.deliveries.outcome import Result
from hookfast.deliveries.retry_plan import PRESETS
from hookfast.signing.signature import Profile, secret_key, sign


def test_every_result_of_an_attempt_is_explained_under_its_name() -> None:
    assert set(RESULTS) == set(Result) - {Result.SUCCESS, Result.STATUS}
    assert {result: row.name for result, row in RESULTS.items()} == {
        result: answer_name(result, None) for result in RESULTS
    }


def test_every_retry_plan_is_described_the_default_first() -> None:
    rows = plan_rows()
    assert [row.is_default for row in rows] == [True, False, False, False]
    assert {row.name for row in rows} == set(PRESETS)
    hourly = rows[0]
    assert hourly.delays == "1 min, 2 min, 4 min, 8 min, 16 min, 32 min, then 72 times 1 h"
    assert (hourly.retries, hourly.total) == (78, timedelta(hours=73, minutes=3))


def test_example_is_signed_as_deliveries_are() -> None:
    head, _, body = example_request().partition("\n\n")
    headers = dict(line.split(": ", 1) for line in head.splitlines()[1:])
    expected = sign(
        Profile.STANDARD,
        keys=[secret_key(SAMPLE_SECRET)],
        message_id=headers["X-Hook-Id"],
        timestamp=int(headers["webhook-timestamp"]),
        body=body.encode(),
    )
    assert expected.items() <= headers.items()
    assert headers["Content-Length"] == str(len(body.encode()))


def test_pages_lead_from_one_to_the_next() -> None:
    pairs = [neighbours(page) for page in PAGES]
    assert [before for before, _ in pairs] == [None, *PAGES[:-1]]
    assert [after for _, after in pairs] == [*PAGES[1:], None]


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (5.0, "5 seconds"),
        (timedelta(minutes=5), "5 minutes"),
        (timedelta(hours=1), "1 hour"),
        (timedelta(hours=73), "3 days 1 hour"),
        (timedelta(hours=73, minutes=3, seconds=9), "3 days 1 hour"),
        (timedelta(minutes=1, seconds=1), "1 minute 1 second"),
        (0, "0 seconds"),
    ],
)
def test_durations_are_written_in_words(duration: timedelta | float, expected: str) -> None:
    assert words(duration) == expected
