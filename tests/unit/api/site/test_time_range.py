"""Time ranges of lists: presets, local times of the reader, RFC 3339, and clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

import pytest

from api.site import formatting
from api.site.time_range import TimeRange
from api.site.time_steps import WINDOWS, Window, step_name
from api.site.zone import UTC_ZONE, zone_named
from hookfast.errors import InvalidInput
from hookfast.storage.counting.reading import is_exact

HOURS = "12:00 16:00 20:00 00:00 04:00 08:00"
NOW = datetime(2026, 11, 25, 9, 30, 15, 250_000, tzinfo=UTC)
BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
KOLKATA, CAIRO = ZoneInfo("Asia/Kolkata"), ZoneInfo("Africa/Cairo")
KATHMANDU, LORD_HOWE = ZoneInfo("Asia/Kathmandu"), ZoneInfo("Australia/Lord_Howe")


def parse(
    within: Any = None,
    since: str | None = None,
    until: str | None = None,
    *,
    zone: ZoneInfo = BERLIN,
    now: datetime = NOW,
) -> TimeRange:
    return TimeRange.parse(within, since, until, zone=zone, now=now)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("within", "zone", "now", "since", "until"),
    [
        ("today", UTC_ZONE, "2026-11-25 09:30", "2026-11-25 00:00", None),
        ("today", BERLIN, "2026-11-25 09:30", "2026-11-24 23:00", None),
        ("today", BERLIN, "2026-11-25 22:59:59", "2026-11-24 23:00", None),
        ("today", BERLIN, "2026-11-25 23:00", "2026-11-25 23:00", None),  # midnight itself
        ("yesterday", BERLIN, "2026-11-25 23:00", "2026-11-24 23:00", "2026-11-25 23:00"),
        ("yesterday", NEW_YORK, "2026-11-25 02:00", "2026-11-23 05:00", "2026-11-24 05:00"),
        ("yesterday", KOLKATA, "2026-11-25 18:29", "2026-11-23 18:30", "2026-11-24 18:30"),
        # a day of 23 hours, and one of 25
        ("yesterday", BERLIN, "2026-03-30 10:00", "2026-03-28 23:00", "2026-03-29 22:00"),
        ("yesterday", BERLIN, "2026-10-26 10:00", "2026-10-24 22:00", "2026-10-25 23:00"),
        # clocks skip midnight: the day begins at 01:00 by them
        ("today", CAIRO, "2026-04-24 10:00", "2026-04-23 22:00", None),
    ],
)
def test_days_begin_at_the_readers_midnight(
    within: str, zone: ZoneInfo, now: str, since: str, until: str | None
) -> None:
    chosen = parse(within, zone=zone, now=utc(now))
    assert chosen.since == utc(since)
    assert chosen.until == (None if until is None else utc(until))


@pytest.mark.parametrize(
    ("within", "since"),
    [
        ("15m", "2026-11-25 09:15"),
        ("1h", "2026-11-25 08:30"),
        ("24h", "2026-11-24 09:30"),
        ("7d", "2026-11-18 09:00"),  # figures that are older than two days are of whole hours
    ],
)
def test_spans_end_now_and_begin_where_figures_do(within: str, since: str) -> None:
    chosen = parse(within)
    for later in (timedelta(0), timedelta(hours=5)):
        assert chosen.start(NOW + later) == utc(since) + later
    assert not chosen.is_fixed
    assert chosen.query() == {"within": within, "since": None, "until": None}


@pytest.mark.parametrize(
    ("since", "until", "expected_since", "expected_until"),
    [
        ("2026-11-24T14:00", "2026-11-24T15:00", "2026-11-24 13:00", "2026-11-24 14:00"),
        ("2026-11-24 14:00:30", None, "2026-11-24 13:00:30", None),
        ("2026-11-24T14:00:00Z", None, "2026-11-24 14:00", None),
        ("2026-11-24T14:00:00+05:30", None, "2026-11-24 08:30", None),
        (None, "2026-07-01T00:00", None, "2026-06-30 22:00"),
        # clocks were set back from 03:00 CEST to 02:00 CET: the range includes both 02:30
        ("2026-10-25T02:30", "2026-10-25T02:30", "2026-10-25 00:30", "2026-10-25 01:30"),
        ("2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25 00:30", "2026-10-25 01:00"),
    ],
)
def test_local_times_are_in_the_readers_zone_and_rfc_3339_as_it_says(
    since: str | None, until: str | None, expected_since: str | None, expected_until: str | None
) -> None:
    chosen = parse(None, since, until)
    assert chosen.since == (None if expected_since is None else utc(expected_since))
    assert chosen.until == (None if expected_until is None else utc(expected_until))


@pytest.mark.parametrize(
    ("since", "until", "pointer", "detail"),
    [
        ("2026-03-29T02:30", None, "since", "there was no 02:30 on 2026-03-29 in Europe/Berlin"),
        (None, "2026-03-29T02:00", "until", "there was no 02:00 on 2026-03-29 in Europe/Berlin"),
        ("2026-02-30T10:00", None, "since", "there is no such time"),
        ("2026-11-24", None, "since", "not a time such as"),
        ("yesterday", None, "since", "not a time such as"),
        (None, "2026-11-24T14:00:00+25:00", "until", "not a time such as"),
        ("0001-01-01T00:00", None, "since", "there is no such time"),
        ("0001-01-01T00:00:00Z", None, "since", "choose a year from 1970"),
        (None, "9999-12-31T23:59:59Z", "until", "choose a year from 1970"),
        ("2026-11-24T14:00", "2026-11-24T14:00", "until", "not later than the beginning"),
        ("2026-11-24T14:00", "2026-11-24T12:00:00Z", "until", "not later than the beginning"),
    ],
)
def test_invalid_times_name_their_field_and_reason(
    since: str | None, until: str | None, pointer: str, detail: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(None, since, until)
    [error] = caught.value.errors
    assert error.pointer == pointer
    assert detail in error.detail


def test_times_win_over_a_span() -> None:
    assert parse("1h", "2026-11-24T14:00").query() == {
        "within": None,
        "since": "2026-11-24T13:00:00Z",
        "until": None,
    }


@pytest.mark.parametrize(
    ("name", "moment", "value", "kind", "has_seconds"),
    [
        ("since", "2026-11-24T13:00:00Z", "2026-11-24T14:00", "datetime-local", False),
        ("until", "2026-11-24T13:00:30Z", "2026-11-24T14:00:30", "datetime-local", True),
        ("since", "2026-11-24T13:00:30.5Z", "2026-11-24T13:00:30.500000Z", "text", False),
        # 02:30 of the first or the second time, as the input's value would be read again
        ("since", "2026-10-25T00:30:00Z", "2026-10-25T02:30", "datetime-local", False),
        ("since", "2026-10-25T01:30:00Z", "2026-10-25T01:30:00Z", "text", False),
        ("until", "2026-10-25T01:30:00Z", "2026-10-25T02:30", "datetime-local", False),
        ("until", "2026-10-25T00:30:00Z", "2026-10-25T00:30:00Z", "text", False),
    ],
)
def test_inputs_hold_exactly_the_chosen_times(
    name: Literal["since", "until"], moment: str, value: str, kind: str, has_seconds: bool
) -> None:
    chosen = parse(None, **{name: moment})
    picker = chosen.picker(name)
    assert (picker.value, picker.type, picker.seconds) == (value, kind, has_seconds)
    assert parse(None, **{name: picker.value}) == chosen


def test_ranges_are_said_in_words() -> None:
    assert parse().words() == "at any time"
    assert parse("24h").words() == "in the last 24 hours"
    assert parse(None, "2026-11-24T14:00").words() == "from 2026-11-24 14:00 CET"
    assert parse(None, None, "2026-07-01T00:00:05").words() == "before 2026-07-01 00:00:05 CEST"
    both = parse(None, "2026-10-25T02:30", "2026-10-25T02:30").words()
    assert both == "from 2026-10-25 02:30 CEST to before 2026-10-25 02:30 CET"


def test_the_chosen_preset_is_marked_also_as_times_in_the_query() -> None:
    yesterday = parse("yesterday").query()
    for chosen, name in (
        (parse(), "Any time"),
        (parse("7d"), "7 days"),
        (parse("today"), "Today"),
        (parse(None, yesterday["since"], yesterday["until"]), "Yesterday"),
    ):
        assert [each.name for each in chosen.presets(NOW) if each.chosen] == [name]
    other = parse(None, "2026-11-24T14:00", "2026-11-24T15:00")
    assert not any(each.chosen for each in other.presets(NOW))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("Asia/Calcutta", "Asia/Calcutta"),  # Chromium's name of Asia/Kolkata
        ("Etc/GMT+5", "Etc/GMT+5"),
        (None, "UTC"),
        ("", "UTC"),
        ("Europe", "UTC"),  # a folder of the zones
        ("Mars/Olympus", "UTC"),
        ("../../etc/passwd", "UTC"),
        ("/etc/localtime", "UTC"),
        ("Europe/Berlin\x00", "UTC"),
    ],
)
def test_unknown_zones_are_utc(name: str | None, key: str) -> None:
    assert zone_named(name).key == key


def test_times_show_the_zone_and_utc() -> None:
    summer = utc("2026-07-01 22:30:05")
    assert formatting.local(summer, BERLIN) == "2026-07-02 00:30:05 CEST"
    assert formatting.both(summer, BERLIN) == "2026-07-02 00:30:05 CEST · 2026-07-01 22:30:05 UTC"
    assert formatting.both(summer, UTC_ZONE) == "2026-07-01 22:30:05 UTC"
    # an API key may be valid until the last moment of the calendar
    last = datetime.max.replace(tzinfo=UTC)
    assert formatting.local(last, BERLIN) == formatting.utc(last)


@pytest.mark.parametrize(
    ("window", "zone", "now", "first", "labels"),
    [
        # local hours of a zone whose clocks are at the half hour of UTC
        ("24h", KOLKATA, "2026-11-25 06:00", "2026-11-24 06:30", HOURS),
        ("7d", NEW_YORK, "2026-11-25 09:30", "2026-11-18 11:00", "19 20 21 22 23 24 25"),
        # before clocks are set back, days begin in the middle of a step
        ("7d", BERLIN, "2026-10-27 10:00", "2026-10-20 11:00", "21 22 23 24 25 26 27"),
    ],
)  # fmt: skip
def test_steps_of_the_overview_begin_at_round_local_times(
    window: Window, zone: ZoneInfo, now: str, first: str, labels: str
) -> None:
    span = WINDOWS[window]
    edges = span.edges(utc(now), zone)
    assert edges[0] == utc(first)
    assert edges[-2] <= utc(now) < edges[-1]
    assert len(edges) == span.count + 1
    found = [span.labels.of(start, end, zone) for start, end in pairwise(edges)]
    # of the days, the number
    assert [label.partition(" ")[0] for label in found if label] == labels.split()


@pytest.mark.parametrize(
    ("window", "age", "length", "words"),
    [
        ("1h", 5, 60, "the last hour, by the minute"),
        ("1h", 20 * 60, 60, "the last hour, by the minute"),
        ("24h", 20 * 60, 60, "the last 24 hours, by the minute"),
        ("24h", 5 * 3_600, 15 * 60, "the last 24 hours, by the quarter of an hour"),
        ("7d", 2 * 86_400, 2 * 3_600, "the last 7 days, by two hours"),
        ("30d", 3 * 86_400, 4 * 3_600, "the last 30 days, by four hours"),
        ("30d", 17 * 86_400, 86_400, "the last 30 days, by the day"),
    ],
)
def test_window_of_a_new_installation_begins_with_its_first_data(
    window: Window, age: int, length: int, words: str
) -> None:
    now = utc("2026-11-25 09:31")
    began = now - timedelta(seconds=age)
    span = WINDOWS[window].begun_at(began, now)
    edges = span.edges(now, UTC_ZONE)
    assert span.words == words
    assert edges[1] - edges[0] == timedelta(seconds=length)
    assert edges[0] <= began  # all of it is shown
    assert edges[-2] <= now < edges[-1]
    assert 12 <= span.count <= 48
    labels = [span.labels.of(start, end, UTC_ZONE) for start, end in pairwise(edges)]
    shown = [label for label in labels if label]
    assert 2 <= len(set(shown)) == len(shown) <= 7
    full = WINDOWS[window]
    assert full.begun_at(None, now) is full
    assert full.begun_at(now - full.count * full.length * 0.61, now) is full


@pytest.mark.parametrize("zone", [UTC_ZONE, BERLIN, NEW_YORK, KOLKATA, KATHMANDU, LORD_HOWE])
@pytest.mark.parametrize("now", ["2026-11-25 09:31", "2026-10-26 00:00", "2026-04-05 15:29:59"])
def test_figures_can_be_read_for_every_step_in_every_zone(zone: ZoneInfo, now: str) -> None:
    moment = utc(now)
    ages = [None, *(timedelta(hours=1.3**power) for power in range(26))]
    for window, age in product(get_args(Window), ages):
        began = None if age is None else moment - age
        span = WINDOWS[window].begun_at(began, moment)
        edges = span.edges(moment, zone)
        assert all(is_exact(each, now=moment) for each in edges), (window, age)


def test_steps_begin_at_round_times_of_utc_where_the_readers_are_not_kept() -> None:
    week, day = WINDOWS["7d"], WINDOWS["24h"]
    assert day.zone_at(NOW, KOLKATA) == KOLKATA  # minutes are kept for two days
    assert week.zone_at(NOW, KOLKATA) == UTC_ZONE
    assert week.zone_at(NOW, NEW_YORK) == NEW_YORK  # hours are kept for 40 days
    assert WINDOWS["30d"].zone_at(NOW, NEW_YORK) == UTC_ZONE
    edges = week.edges(NOW, KOLKATA)
    assert edges[0] == utc("2026-11-18 12:00")
    assert step_name(edges[0], edges[1], UTC_ZONE) == "18 Nov 12:00 UTC"
