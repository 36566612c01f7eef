"""Mappings: the bodies they make, with exact numbers, and that none takes long or makes much."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.deliveries.mapping import (
    LIMITS,
    MAX_BYTES,
    MappingFailed,
    check_mapping,
    mapped_body,
)
from hookfast.errors import InvalidInput
from tests.support.work import calls_made_by

INVOICE = b"""{"id":"evt_1","type":"order.invoice.paid","created_at":"2026-01-02T03:04:05Z",\
"tenant_id":null,"data":{"invoice_id":"in_7","amount":12.50,"rate":1E-2,"count":12345678901234567890,\
"vat":0.1,"note":null,"paid":true,"customer":{"name":"J\xc3\xbcrgen \\"J\\""},\
"items":[{"sku":"b","n":2},{"sku":"a","n":1}]}}"""


def made(mapping: str, body: bytes = INVOICE) -> str:
    check_mapping(mapping, pointer="/mapping")
    return mapped_body(mapping, body).decode()


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (
            "{text: join(' ', ['Invoice', data.invoice_id, 'is paid'])}",
            '{"text":"Invoice in_7 is paid"}',
        ),
        ("data.customer", '{"name":"Jürgen \\"J\\""}'),
        # numbers keep the text that they were emitted with
        ("data.[amount, rate, count, vat]", "[12.50,1E-2,12345678901234567890,0.1]"),
        ("{t: join(' ', ['EUR', to_string(data.amount)])}", '{"t":"EUR 12.50"}'),
        ("max(data.[amount, vat])", "12.50"),
        ("sum(data.[amount, vat])", "12.6"),
        ("to_string(data.items[0])", '"{\\"sku\\":\\"b\\",\\"n\\":2}"'),
        ("{amount: data.amount, none: data.note, missing: data.x}",
         '{"amount":12.50,"none":null,"missing":null}'),
        ("sort_by(data.items, &sku)[*].sku", '["a","b"]'),
        ("map(&n, data.items)", "[2,1]"),
        ("max_by(data.items, &n).sku", '"b"'),
        ("merge(data.customer, `{\"vip\": true}`)", '{"name":"Jürgen \\"J\\"","vip":true}'),
        ("data.items[?n > `1`].sku | [0]", '"b"'),
        ("{a: ceil(data.amount), b: floor(data.amount), c: abs(`-2`), d: avg(data.items[*].n)}",
         '{"a":13,"b":12,"c":2,"d":1.5}'),
        ("data.paid", "true"),
        ("type", '"order.invoice.paid"'),
    ],
)  # fmt: skip
def test_mapping_makes_the_body(mapping: str, expected: str) -> None:
    assert made(mapping) == expected
    json.loads(expected)


def test_whole_event_is_sent_as_it_was_emitted() -> None:
    assert made("@") == INVOICE.decode()


@pytest.mark.parametrize(
    ("mapping", "reason"),
    [
        ("data.missing", "makes null"),
        ("join(' ', [data.invoice_id, data.amount])", r"use to_string\(\)"),
        ("join(' ', [data.invoice_id, data.missing])", r"given null .* not_null\(\)"),
        ("length(data.amount)", r"length\(\) takes string or array or object, and was given"),
        ("data.items[::0]", "cannot be evaluated"),
        ("sort_by(data.items, &[sku])", r"sort_by\(\) takes"),
        ("to_number('1e999')", "JSON cannot express"),
        ("[to_number('nan')]", "JSON cannot express"),
        ("to_string(to_number('nan'))", "cannot be evaluated"),
        ("sum([to_number('1e308'), to_number('1e308')])", "JSON cannot express"),
        ("data.[rate, to_number('nan')]", "JSON cannot express"),
    ],
)  # fmt: skip
def test_mapping_without_a_result_fails_with_a_reason(mapping: str, reason: str) -> None:
    check_mapping(mapping, pointer="/mapping")
    with pytest.raises(MappingFailed, match=reason) as failed:
        mapped_body(mapping, INVOICE)
    assert "in_7" not in failed.value.error
    assert "12.5" not in failed.value.error


@pytest.mark.parametrize(
    ("mapping", "detail"),
    [
        ("", "1 to 4,000 characters"),
        ("a" * (LIMITS.length + 1), "1 to 4,000 characters"),
        ("{text: data.", "error at character 13"),
        ("{text: 'x}", "error at character 8"),
        ("data..x", "error at character 6"),
        ("{{ data.x }}", "error at character 2"),
        ("(" * 1_000, "not a JMESPath"),
        ("[" * 60 + "@" + "]" * 60, "nests at most"),
        ("[" + ",".join(["a"] * 700) + "]", "nests at most"),
        ("lower(type)", "can only use abs,"),
        ("length()", "length takes 1 arguments, and has 0"),
        ("not_null()", "at least 1"),
        ("join(',')", "join takes 2 arguments"),
        ("&a", "expression types"),
        ("[&a]", "expression types"),
        ("to_string(&a)", "takes no expression"),
        ("sort_by(data.items, sku)", "takes an expression, such as"),
    ],
)
def test_invalid_mapping_is_rejected(mapping: str, detail: str) -> None:
    with pytest.raises(InvalidInput, match=detail) as rejected:
        check_mapping(mapping, pointer="/mapping")
    assert rejected.value.code == "invalid_expression"
    assert rejected.value.errors[0].pointer == "/mapping"


def test_body_has_at_most_256_kib_or_the_size_of_the_event() -> None:
    def event(size: int) -> bytes:
        return json.dumps({"data": "x" * size}).encode()

    assert len(made("[data]", event(MAX_BYTES - 12))) == MAX_BYTES - 8
    with pytest.raises(MappingFailed, match="more than 256 KiB"):
        mapped_body("[data, data]", event(MAX_BYTES - 12))
    with pytest.raises(MappingFailed, match="more than 512 KiB"):  # meanwhile; of 6-byte escapes
        mapped_body("[data, data, data, data]", event(MAX_BYTES - 12))
    with pytest.raises(MappingFailed, match="a body of more than 256 KiB"):
        mapped_body("{a: data, b: data, c: data}", event(100_000))
    assert len(made("@", event(2 * MAX_BYTES))) > 2 * MAX_BYTES


DOUBLED = " | ".join(["[@, @]"] * 20)
ATTACKS = [
    DOUBLED,
    f"to_string({DOUBLED})",
    " | ".join(["[@, @][]"] * 20),
    # equal, and shared: comparing them naively takes 2 to the power of 10 comparisons of the data
    f"[{' | '.join(['[@,@]'] * 10)}, {' | '.join(['[@,@]'] * 10)}] | [0] == [1]",
    "to_string(" * 20 + "@" + ")" * 20,
    "[" + ",".join(["to_string(@)"] * 100) + "]",
    "[" + ",".join(["data == data"] * 100) + "]",
    "{" + ",".join(f"k{n}:@" for n in range(200)) + "}",
    "merge(" + ",".join(["@"] * 200) + ")",
    "data" + "[*]" * 20,
    "data" + "[]" * 15,
    "data[*].to_string(@)",
    "join(',', data[*].to_string(@))",
    "join(join(to_string(@), data[*].to_string(@)), data[*].to_string(@))",
    "data[].{a: @, b: @, c: @} | [*].*",
    "data[*].[@] | [*].[@] | [*].[@]",
    "data[?@ == @]" + " | [?@ == @]" * 10,
    "data[?contains(to_string(@), '9')]",
    "map(&map(&@, [@, @]), data)",
    "sort_by(data, &to_string(@))",
    "max_by(data, &length(to_string([@, @])))",
    "[sort(data), sort(data), sort(data), sort(data)]",
    "sum(data)",
    "reverse(data)" + " | reverse(@)" * 20,
    "data[::-1]" + " | [::-1]" * 20,
    "not_null(" + ",".join(["data"] * 300) + ")",
    "!" * 40 + "data",
]
EVENTS: dict[str, Any] = {
    "many numbers": list(range(35_000)),
    "many ones": [1] * 120_000,
    "many objects": [{}] * 80_000,
    "nested": [[[[1] * 8] * 8] * 8] * 60,
    "long strings": ["\\" * 2_000] * 60,
    "similar strings": ["a" * 250 + str(n) for n in range(900)],
    "items": [{"sku": f"sku-{n}", "name": "Ünïcode", "price": n + 0.5} for n in range(3_000)],
    "large numbers": [10**4_299] * 50,
}
BODIES = {name: json.dumps({"data": data}).encode() for name, data in EVENTS.items()} | {
    "exact numbers": b'{"data":[' + b",".join([b"1.10"] * 50_000) + b"]}"
}


QUICK = ("many numbers", "long strings")
MOST_CALLS = 1_000_000  # the longest makes 640,000, which take about 0.1 s


@pytest.mark.parametrize(
    "event",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in BODIES],
)
def test_no_mapping_takes_long_or_makes_a_large_body(event: str) -> None:
    body = BODIES[event]
    for mapping in ATTACKS:
        check_mapping(mapping, pointer="/mapping")

        def evaluate(mapping: str = mapping) -> None:
            with contextlib.suppress(MappingFailed):
                assert len(mapped_body(mapping, body)) <= max(MAX_BYTES, len(body))

        assert calls_made_by(evaluate) < MOST_CALLS, mapping


def test_mapping_of_the_greatest_length_is_compiled_at_once() -> None:
    def check() -> None:
        with pytest.raises(InvalidInput):
            check_mapping(text, pointer="")

    for text in ("!" * 4_000, "a." * 1_999 + "a", "[" * 2_000 + "]" * 2_000, "a||" * 1_333 + "a"):
        assert calls_made_by(check) < 100_000, text


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "data", "id"]), inner, max_size=4)
    ),
    max_leaves=12,
)
pieces = st.sampled_from(
    [*"abid.[]*|!(),@&{}:<", "||", "&&", "==", "[*]", "[]", "[0]", "[-1]", "[?a]", "[?a==b]"]
    + ["[::2]", "`1`", "`null`", "'x'", '"a"', '`"q"`', "data", "join(',',", "{a:", "&a"]
    + [f"{name}(" for name in sorted(LIMITS.functions)]
)


@given(text=st.lists(pieces, max_size=12).map("".join), data=values)
def test_any_mapping_is_rejected_or_makes_json_or_fails_with_a_reason(text: str, data: Any) -> None:
    try:
        check_mapping(text, pointer="")
        body = mapped_body(text, json.dumps({"id": "evt_1", "data": data}).encode())
    except (InvalidInput, MappingFailed):
        return
    json.loads(body, parse_constant=pytest.fail)


@given(data=values)
def test_any_data_is_sent_as_it_was_emitted(data: Any) -> None:
    body = json.dumps({"data": data}, separators=(",", ":"), ensure_ascii=False)
    try:
        raw = body.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no event contains
        return
    assert mapped_body("@", raw) == raw
