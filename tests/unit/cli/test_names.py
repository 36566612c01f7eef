"""What a name, a URL or a part of an id is resolved to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from hookfast.cli.remote.api import Api, ApiResponse
from hookfast.cli.remote.id_of import IdOf
from hookfast.cli.remote.names import NOUNS, endpoint_name, resolve, short_id

_BILLING, _ARCHIVE = f"ep_{1:032x}", f"ep_{2:032x}"
_ROWS = [
    {"id": _BILLING, "description": "Billing", "url": "https://a.example/hooks"},
    {"id": _ARCHIVE, "description": "Billing archive", "url": "https://b.example/hooks"},
]


class _Lists:
    """An API with one page of every list; `more` says that other pages follow."""

    def __init__(self, rows: list[dict[str, Any]], *, more: bool) -> None:
        self.rows, self.more = rows, more
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def pages(self, path: str, query: dict[str, Any], *, limit: int) -> Iterator[ApiResponse]:
        self.asked.append((path, query))
        cursor = "next" if self.more else None
        yield ApiResponse("", {"data": self.rows, "next_cursor": cursor}, {})


def _resolve(noun: str, text: str, *, more: bool = False, **how: Any) -> str:
    rows = _ROWS if NOUNS[noun].texts else [{"id": f"dlv_{n:032x}"} for n in (0xAB, 0xBA, 0xC)]
    exact = how.pop("exact", False)
    return resolve(lambda: _as_api(_Lists(rows, more=more)), IdOf(noun, exact), text, **how)


def _as_api(lists: _Lists) -> Api:
    return lists  # type: ignore[return-value] # all that resolving calls


@pytest.mark.parametrize("text", ["billing", " Billing ", "a.example", _BILLING[-9:], _BILLING])
def test_one_match_is_its_id_and_a_whole_name_comes_before_parts(text: str) -> None:
    assert _resolve("endpoint", text) == _BILLING


def test_a_whole_id_is_not_looked_up() -> None:
    def connect() -> Api:
        raise AssertionError

    assert resolve(connect, IdOf("endpoint"), _BILLING) == _BILLING


@pytest.mark.parametrize(
    ("text", "how", "message"),
    [
        ("hooks", {}, "2 endpoints match 'hooks'; give an id"),
        ("shipping", {}, "there is no endpoint 'shipping'"),
        ("shipping", {"more": True}, "there is no endpoint 'shipping' among the newest 5,000"),
        ("archive", {"more": True}, "more than 5,000 exist, and others may match 'archive' too"),
        ("archive", {"exact": True}, "give the whole name of the endpoint, or its id"),
        ("", {}, "there is no endpoint ''"),
    ],
)
def test_anything_else_is_an_error_that_says_what_to_do(
    text: str, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(typer.BadParameter, match=message.replace(".", r"\.")):
        _resolve("endpoint", text, **how)


def test_a_whole_name_is_enough_among_thousands() -> None:
    assert _resolve("endpoint", "billing", more=True) == _BILLING


def test_the_end_of_an_id_is_enough_among_the_newest_of_many() -> None:
    assert _resolve("delivery", "dlv_…000000ab", more=True) == f"dlv_{0xAB:032x}"
    with pytest.raises(typer.BadParameter, match="3 deliveries among the newest 1,000 match '0'"):
        _resolve("delivery", "0", more=True)


def test_a_tenant_narrows_the_search() -> None:
    lists = _Lists(_ROWS, more=False)
    resolve(lambda: _as_api(lists), IdOf("endpoint"), "billing", tenant_id="tnt_1")
    assert lists.asked == [("/endpoints", {"tenant_id": "tnt_1"})]


def test_an_endpoint_is_called_by_its_description_then_its_url_then_its_id() -> None:
    row = {"id": _BILLING, "description": "", "url": "https://a.example/hooks"}
    assert endpoint_name(row | {"description": "Billing"}) == "Billing"
    assert endpoint_name(row) == "a.example/hooks"
    assert endpoint_name(row | {"description": "  "}) == "a.example/hooks"
    assert endpoint_name(row | {"url": None}) == f"polled {short_id(_BILLING)}"
