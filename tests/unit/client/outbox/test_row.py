"""What Hookfast would reject is an error in the caller's code, before anything is committed."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from hookfast_client.outbox.row import create_row, json_text
from hookfast_client.outbox.table import TableName, create_sql, create_statements, drop_sql

GOOD: dict[str, Any] = {
    "type": "order.invoice.paid",
    "data": {},
    "tenant_id": None,
    "deliver_at": None,
    "ordering_key": None,
    "table": "hookfast_outbox",
}
DEEP: Any = 1
for _ in range(63):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "data",
    [
        *(
            None,
            True,
            0,
            10**4000,
            -1.5e300,
            "",
            [],
            {},
            "größe 👩‍🚀",
            {"": [(1, 2)]},
            Decimal("1.10"),
        ),
        *(b' {"exact": 1.10} ', b'"\\\\u0000"', DEEP),
    ],
)
def test_every_json_value_is_accepted(data: Any) -> None:
    assert json_text(data) == json_text(json_text(data).encode())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        *((number, "not JSON") for number in (math.nan, math.inf, -math.inf)),
        *((value, "not JSON") for value in (Decimal("NaN"), {1, 2}, object(), {(1, 2): 3}, 1j)),
        ({"a": {"b": math.nan}}, "/a/b"),
        (b"{", "not JSON"),
        (b"[NaN]", "NaN is not a number"),
        (b"\xef\xbb\xbf1", "BOM"),
        (b"", "not JSON"),
        (b"\xff", "not JSON|utf-8"),
        *((text, "NUL") for text in ("a\0", {"a\0": 1}, [["\0"]], b'"\\u0000"')),
        *((text, "surrogate") for text in ("\ud800", {"\udfff": 1}, b'"\\ud800"')),
        ({1: 1, "1": 2}, "the key 1 is not a str"),
        (b'{"a": 1, "a": 1}', "same name"),
        ("x" * 1_500_000, "larger than"),
        ([DEEP], "63 levels"),
        (b"[" * 100_000 + b"]" * 100_000, "63 levels|not JSON"),
    ],
)
def test_other_data_is_an_error_that_says_why(data: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        json_text(data)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"type": name} for name in ("", "Order.paid", "a..b", "a.b.", "a-b", "a.b.c.d.e.f.g")),
        *({"type": name} for name in ("a." + "b" * 127, "1a", "a.b\n")),
        {"deliver_at": datetime(2026, 12, 24)},
        *({"ordering_key": key} for key in ("", "x" * 257, "a\0", "a\n", "\x85", "\ud800")),
        {"tenant_id": "tnt_\0"},
        {"ordering_key": "a", "deliver_at": datetime(2026, 12, 24, tzinfo=UTC)},
        *({"table": name} for name in ("", "a b", 'a"b', "a.b.c", ".a", "a.", "ä", "x" * 51)),
        *({"table": name} for name in ("a;DROP TABLE b", "a%s", "x" * 64 + ".a", "1a", "a\n")),
    ],
    ids=str,
)
def test_other_members_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        create_row(**(GOOD | wrong))


@pytest.mark.parametrize("name", ["a", "invoice.paid", "a1.b_2.c.d.e.f", "a." + "b" * 126])
def test_type_has_one_to_six_parts(name: str) -> None:
    assert create_row(**(GOOD | {"type": name})).values[1] == name


def test_each_row_has_its_own_key() -> None:
    assert len({create_row(**GOOD).key for _ in range(100)}) == 100


def test_names_in_sql_are_quoted_and_in_the_schema_of_the_table() -> None:
    assert str(TableName.parse("Billing.Outbox")) == '"Billing"."Outbox"'
    script = create_sql("Billing.Outbox")
    assert 'CREATE TABLE "Billing"."Outbox" (' in script
    assert script.count('EXECUTE FUNCTION "Billing"."Outbox_notify"()') == 1
    assert drop_sql("Billing.Outbox").startswith('DROP TABLE "Billing"."Outbox";\n')
    longest = "x" * 50
    for name in ("_waiting", "_rejected", "_notify"):
        assert len(longest + name) <= 63
        assert f'"{longest}{name}"' in create_sql(longest)


def test_trigger_is_left_out_on_request() -> None:
    assert "notify" not in "".join(create_statements(notify=False)).lower()
