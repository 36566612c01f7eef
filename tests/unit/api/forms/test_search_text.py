"""What a person types or pastes into a search is read as what it may be."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from api.forms.search import SearchText
from hookfast.errors import InvalidInput
from hookfast.ids import new_id

NOW = datetime(2026, 11, 20, tzinfo=UTC)
DELIVERY = new_id("dlv", NOW, random=Random(1))
ENDPOINT = new_id("ep", NOW, random=Random(2))


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("  order 4711\n", "order 4711"),
        ('"order 4711",', "order 4711"),
        ("“order\u00a04711”", "order 4711"),
        ("\ufeffорder\t 4711", "орder 4711"),
        ("(invoice)", "invoice"),
    ],
)
def test_quotes_and_spaces_around_a_text_are_removed(typed: str, text: str) -> None:
    read = SearchText.parse(typed)
    assert read.text == text
    # a key or a name may have quotes or brackets of its own
    assert set(read.keys) == set(read.names) == {text, typed.strip()}


@pytest.mark.parametrize(
    ("typed", "ids"),
    [
        (DELIVERY.upper(), [DELIVERY]),
        (f"delivery/{DELIVERY}", [DELIVERY]),
        (f'{{"delivery_id": "{DELIVERY}", "endpoint_id": "{ENDPOINT}"}}', [DELIVERY, ENDPOINT]),
        (f"https://x.test/dashboard/endpoints/{ENDPOINT}/edit?a=1", [ENDPOINT]),
        (f"{DELIVERY}0", []),  # one digit too many
        (f"x{DELIVERY}", []),
        ("evt_1NG8Du2eZvKYlo2CUI79vXWy", []),  # Stripe's
    ],
)
def test_whole_ids_are_found_inside_a_text(typed: str, ids: list[str]) -> None:
    read = SearchText.parse(typed)
    assert [id_ for _, id_ in read.ids] == ids
    assert bool(read.names) is not bool(ids)


def test_id_without_its_prefix_may_be_any() -> None:
    read = SearchText.parse(DELIVERY.removeprefix("dlv_"))
    assert ("dlv", DELIVERY) in read.ids
    assert len(read.ids) > 10
    assert SearchText.parse("4bf92f3577b34da6a3ce929d0e0e4736").ids == ()  # a trace id is no UUIDv7


@pytest.mark.parametrize(
    ("typed", "shortened"),
    [
        ("dlv_…0123abcd", ("dlv", "0123abcd")),
        ("ep_...0123ABCD", ("ep", "0123abcd")),
        ("dlv_0123abcd", None),
        ("xyz_…0123abcd", None),
    ],
)
def test_id_as_lists_shorten_it_is_recognised(
    typed: str, shortened: tuple[str, str] | None
) -> None:
    assert SearchText.parse(typed).shortened == shortened


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("https://example.com/hooks/", ("example.com/hooks",)),
        ("HTTP://example.com/hooks?a=1#b", ("example.com/hooks?a=1", "example.com/hooks")),
        ("example.com/hooks/", ("example.com/hooks/",)),
        ("https://", ()),
    ],
)
def test_url_is_searched_without_scheme_and_query(typed: str, names: tuple[str, ...]) -> None:
    read = SearchText.parse(typed)
    assert read.names == names
    assert read.looks_like == "url"


@pytest.mark.parametrize("typed", ["", ' "" ', "hf_" + "x" * 43, "'whsec_" + "A" * 24 + "'"])
def test_secret_and_empty_text_are_rejected(typed: str) -> None:
    with pytest.raises(InvalidInput):
        SearchText.parse(typed)
