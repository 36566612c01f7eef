"""Mappings: the bodies they make, with exact numbers, and that none takes long or makes much."""

from __future__ import annotations

import contextlib
import json
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
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
from hookfast.strict_json.text import from_text, to_text
from tests.support.work import calls_made_by
from tests.unit.strict_json.numbers_as_text import NUMBERS

INVOICE = b"""{"id":"evt_1","type":"order.invoice.paid","created_at":"2026-01-02T03:04:05Z",\
"tenant_id":null,"data":{"invoice_id":"in_7","amount":12.50,"rate":1E-2,"count":12345678901234567890,\
"vat":0.1,"zero":-0,"note":null,"paid":true,"customer":{"name":"J\xc3\xbcrgen \\"J\\""},\
"items":[{"sku":"b","n":2},{"sku":"a","n":1}]}}"""


def made(mapping: str, body: bytes = INVOICE) -> str:
    check_mapping(mapping, pointer="/mapping")
    return mapped_body(mapping, body).decode()


@pytest.mark.parametrize("written", ["1e99999", "1" * 5_000, "1e-99999", "1E400"])
def test_number_that_only_an_inbound_request_can_have_keeps_its_text(written: str) -> None:
    body = b'{"data":-%s}' % written.encode()
    assert made("[data, abs(data)]", body) == f"[-{written},{written}]"


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (
            "{text: join(' ', ['Invoice', data.invoice_id, 'is paid'])}",
            '{"text":"Invoice in_7 is paid"}',
        ),
        ("data.customer", '{"name":"Jürgen \\"J\\""}'),
        # numbers keep the text that they were emitted with
        ("data.[amount, rate, count, vat, zero]", "[12.50,1E-2,12345678901234567890,0.1,-0]"),
        ("[`1.10`, `1E2`, to_number('2.50'), to_number(`3.0`)]", "[1.10,1E2,2.50,3.0]"),
        ("{t: join(' ', ['EUR', to_string(data.amount)])}", '{"t":"EUR 12.50"}'),
        ("max(data.[amount, vat])", "12.50"),
        ("sum(data.[amount, vat])", "12.60"),
        ("sum([`0.1`, `0.2`])", "0.3"),
        ("sum(data.[count, vat])", "12345678901234567890.1"),
        ("sum([`1e308`, `1`])", "1" + "0" * 307 + "1"),
        ("[sum(`[]`), avg(`[]`), max(`[]`)]", "[0,null,null]"),
        ("avg([`1`, `1`, `2`])", "1.333333333333333333333333333333333"),  # 34 digits
        ("avg([`1.1000000000000000000000000000000000000000000000`])",
         "1.1000000000000000000000000000000000000000000000"),
        ("abs(`-0.10000000000000000000000000000001`)", "0.10000000000000000000000000000001"),
        ("[ceil(`1e20`), floor(`-1.5`), abs(`-0.0`)]", "[100000000000000000000,-2,0.0]"),
        ("[abs(`-1E5`), abs(`-0`), abs(`0.10`), abs(`-7`)]", "[1E5,0,0.10,7]"),
        ("sort([`2`, `1.5`, `1E1`, `-0`])", "[-0,1.5,2,1E1]"),
        ("[max([`0.1`, `0.10000000000000000001`]), min([`1`, `1.0`])]",
         "[0.10000000000000000001,1]"),
        # JSON's equality at every depth
        ("[`1` == `1.0`, `[1]` == `[true]`, {x: `0`} == {x: `false`}]", "[true,false,false]"),
        ("[`1` != `true`, `{\"a\": [1.0]}` == `{\"a\": [1]}`, `null` == `false`]",
         "[true,true,false]"),
        ("[contains([`true`], `1`), contains([`1.0`], `1`), contains('a1', `1`)]",
         "[false,true,false]"),
        ("data.count == `12345678901234567890.0`", "true"),
        ("data.vat == `0.10000000000000000001`", "false"),
        # an order is of two numbers
        ("data.[vat < `0.10000000000000000001`, amount > vat]", "[true,true]"),
        ("data.[amount > invoice_id, invoice_id < 'z', note < `1`, `true` >= `0`]",
         "[null,null,null,null]"),
        ("`[{\"id\": 1, \"p\": 12}, {\"id\": 2, \"p\": \"n/a\"}]`[?p > `10`].id", "[1]"),
        # only what is a number in JSON
        ("[to_number('-1.5e3'), to_number(' 12'), to_number('1_000'), to_number('+5')]",
         "[-1.5e3,null,null,null]"),
        ("[to_number('0012'), to_number('٣'), to_number('nan'), to_number('Infinity')]",
         "[null,null,null,null]"),
        ("[to_number('1e400'), to_number('1.'), to_number('12\n'), to_number(`true`)]",
         "[null,null,null,null]"),
        ("[type(`1.5`), type(`1`), type(`true`)]", '["number","number","boolean"]'),
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
        ("to_number('1e999')", "makes null"),
        ("join(' ', [data.invoice_id, data.amount])",
         r"^join\(\) takes an array of strings, and was given an array with a number and a string "
         r"for this event; use to_string\(\)$"),
        ("join(' ', [data.invoice_id, data.missing])",
         r"an array with a string and null for this event; use not_null\(\)"),
        ("length(data.amount)",
         r"^length\(\) takes a string or an array or an object, and was given a number for this "),
        ("merge(data.customer, data.items)", r"merge\(\) takes an object, and was given an array"),
        ("max([`1`, 'a'])", r"takes an array of numbers or an array of strings, .* a number and"),
        ("sum([`1`, `true`])", r"an array with a boolean and a number"),
        ("sort_by(data.items, &[sku])", r"expression of sort_by\(\) must make .* makes an array"),
        ("max_by([{k: `1`}, {k: 'a'}], &k)", r"of max_by\(\) .* makes a number and a string"),
        ("min_by(data.items, &missing)", r"makes null for this event; use not_null\(\)"),
        ("sum([`1e308`, `1e308`])", r"sum\(\) makes a number that does not fit a double"),
        ("avg([`1e308`, `1.5e308`])", r"avg\(\) makes a number that does not fit a double"),
    ],
)  # fmt: skip
def test_mapping_without_a_result_fails_with_a_reason(mapping: str, reason: str) -> None:
    check_mapping(mapping, pointer="/mapping")
    with pytest.raises(MappingFailed, match=reason) as failed:
        mapped_body(mapping, INVOICE)
    assert "in_7" not in failed.value.error
    assert "12.5" not in failed.value.error


ONE_OF_EACH_TYPE = ("null", "true", "1", "1.5", '"a"', "[]", "[1,null]", '["a",1.5]', '{"a":1}')
TAKES: dict[str, list[str]] = {
    "join": ["data", "','"],
    "ends_with": ["data", "'a'"],
    "starts_with": ["data", "'a'"],
    "contains": ["data", "`1`"],
    "map": ["&a", "data"],
    "merge": ["`{}`", "data"],
    "sort_by": ["data", "&@"],
    "min_by": ["data", "&@"],
    "max_by": ["data", "&@"],
}


@pytest.mark.parametrize("name", sorted(LIMITS.functions))
def test_function_gets_a_result_or_names_what_it_takes_for_any_value(name: str) -> None:
    arguments = TAKES.get(name, ["data"])
    calls = {f"{name}({', '.join(order)})" for order in (arguments, arguments[::-1])}
    for call in calls:
        with contextlib.suppress(InvalidInput):  # such as `sort_by(&@, data)`
            check_mapping(call, pointer="")
            for value in ONE_OF_EACH_TYPE:
                try:
                    from_text(mapped_body(f"[{call}]", f'{{"data":{value}}}'.encode()))
                except MappingFailed as failed:
                    reason = failed.reason
                else:
                    continue
                assert f"{name}() " in reason
                assert " take" in reason or " must make " in reason


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
        ("data.items[::0]", "step 0"),
        ("[data.amount, `NaN`]", "literal at character 15 that is not JSON: NaN and Infinity"),
        ("`-Infinity`", "NaN and Infinity are not JSON"),
        ("`[1, 1e400]`", "character 1 that is not JSON: a number is out of range at line 1, col"),
        ("{a: `1e-99999`}", "out of range"),
        ("`01`", "character 1 that is not JSON"),
        ("`paid`", "character 1 that is not JSON"),
        ('`{"a":1,"a":2}`', "the same name"),
        ('`"\\ud800"`', "character 1 that is not JSON: unpaired surrogate"),
        ('{"\\udfff": data.vat}', "character 2 that is not JSON: unpaired surrogate"),
        ("abs('1')", r"^.*abs\(\) takes a number, and was given a string"),
        ("merge(data, `[]`)", r"merge\(\) takes an object, and was given an array"),
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
    "long fractions": [Decimal("0." + "3" * 50_000)] * 4 + [1] * 20_000,
    "far apart": [Decimal("1e308"), Decimal("1e-9999")] * 9_000,
}
BODIES = {name: to_text({"data": data}).encode() for name, data in EVENTS.items()} | {
    "exact numbers": b'{"data":[' + b",".join([b"1.10"] * 50_000) + b"]}"
}


QUICK = ("many numbers", "long strings")
MOST_CALLS = 1_000_000  # the longest makes 840,000, which take about 0.1 s


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
    st.none() | st.booleans() | st.integers() | NUMBERS.map(from_text) | st.text(max_size=6),
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
        body = mapped_body(text, to_text({"id": "evt_1", "data": data}).encode())
    except InvalidInput:
        return
    except MappingFailed as failed:
        reason = failed.reason
    else:
        from_text(body)
        return
    assert "cannot be evaluated" not in reason  # that is for faults of ours


@given(data=values)
def test_any_data_is_sent_as_it_was_emitted(data: Any) -> None:
    body = to_text({"data": data}).encode()
    assert mapped_body("@", body) == body


@given(NUMBERS, NUMBERS)
def test_numbers_are_calculated_with_as_they_were_written(first: str, second: str) -> None:
    body = f'{{"data":{{"a":{first},"b":{second}}}}}'.encode()
    one, other = Decimal(first), Decimal(second)
    with localcontext() as exact:
        exact.prec = 2_000
        expected = {
            "a > b": one > other,
            "a >= b": one >= other,
            "a < b": one < other,
            "a <= b": one <= other,
            "a == b": one == other,
            "sum([a, b])": one + other,
            "abs(a)": abs(one),
            "ceil(a)": one.to_integral_value(ROUND_CEILING),
            "floor(a)": one.to_integral_value(ROUND_FLOOR),
            "max([a, b])": max(one, other),
        }
    for mapping, value in expected.items():
        assert from_text(mapped_body(f"data.[{mapping}]", body)) == [value], mapping
    assert mapped_body("data", body) == body[8:-1]
    assert mapped_body("to_number(to_string(data.a))", body) == first.encode()
