"""Which patterns match a registered event type, and what may have been meant by others."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.events.catalogue import Catalogue
from hookfast.events.event_type import matches, parse_pattern
from tests.unit.events.test_event_type import event_types, patterns

SHOP = Catalogue(
    [
        "order.invoice.paid",
        "order.invoice.voided",
        "order.refund.created",
        "order.line_item.created.v2",
        "user.created",
        "ping",
    ]
)


@given(names=st.lists(event_types, max_size=8), pattern=patterns)
def test_pattern_has_a_match_if_it_matches_one_of_the_names(names: list[str], pattern: str) -> None:
    expected = any(matches(pattern, name) for name in names)
    assert Catalogue(names).has_match(pattern) is expected


@given(names=st.lists(event_types, max_size=8), text=event_types, pattern=patterns)
def test_suggestions_are_registered_or_match_something(
    names: list[str], text: str, pattern: str
) -> None:
    catalogue = Catalogue(names)
    assert catalogue.suggest_type(text) in (None, *names)
    suggested = catalogue.suggest_pattern(pattern)
    if suggested is not None:
        assert parse_pattern(suggested, pointer="/") == suggested
        assert catalogue.has_match(suggested)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("order.invoice.payed", "order.invoice.paid"),
        ("orders.invoice.paid", "order.invoice.paid"),
        ("invoice.paid", "order.invoice.paid"),  # a part is missing
        ("order.paid", "order.invoice.paid"),
        ("paid.invoice.order", "order.invoice.paid"),  # the parts are in another order
        ("shop.order.invoice.paid", "order.invoice.paid"),
        ("order.line_item.created", "order.line_item.created.v2"),
        ("refund.created", "order.refund.created"),
        ("usr.created", "user.created"),
        ("pign", None),
        ("pings", "ping"),
        ("zebra.striped", None),
        ("a.b.c.d.e.f", None),
    ],
)
def test_event_type_that_was_meant_is_found(sent: str, meant: str | None) -> None:
    assert SHOP.suggest_type(sent) == meant


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("order.invoice.payed", "order.invoice.paid"),
        ("orders.*.paid", "order.*.paid"),
        ("*.invoice.payed", "*.invoice.paid"),
        ("order.invoce.**", "order.invoice.**"),
        ("order.*", "order.**"),  # `*` is one part, which people forget
        ("order", "order.**"),
        ("orders.*", "order.**"),
        ("order.invoice", "order.invoice.**"),
        ("order.invoice.paid.**", "order.invoice.paid"),
        ("invoice.*", "*.invoice.*"),
        ("*.*.*.*.*", "**"),
        ("zebra.**", None),
        ("zebra.striped", None),
    ],
)
def test_pattern_that_was_meant_is_found(sent: str, meant: str | None) -> None:
    assert not SHOP.has_match(sent)
    assert SHOP.suggest_pattern(sent) == meant


def test_nothing_is_suggested_from_an_empty_catalogue() -> None:
    empty = Catalogue([])
    assert empty.suggest_type("order.invoice.paid") is None
    assert empty.suggest_pattern("**") is None
    assert not empty.has_match("**")


def test_suggestion_among_ten_thousand_long_names_is_quick() -> None:
    names = [f"{'ab' * 20}.{'ba' * 20}.{'aab' * 10}_{number}.c.d.e" for number in range(10_000)]
    catalogue = Catalogue(names)
    catalogue.suggest_type("a")  # builds the index
    begun = time.process_time()
    for number in range(5):
        catalogue.suggest_type(f"{'ab' * 20}.{'ba' * 20}.{'abb' * 10}.c.d.x{number}")
        catalogue.suggest_pattern(f"{'ab' * 20}.*.{'abb' * 10}.*.d.x{number}")
    assert time.process_time() - begun < 0.5  # about 0.1 s
