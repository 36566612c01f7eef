r"""Regular expressions of schemas are those of ECMA-262, or they are refused by name."""

from __future__ import annotations

from typing import Final

import pytest
import regress
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import ValidationError

from hookfast.events.pattern import _LONE_PROPERTIES, InvalidPattern, translate
from hookfast.events.schema_keywords import Pattern, within_budget


def found(pattern: str, text: str) -> bool:
    with within_budget():
        return Pattern(pattern).found_in(text)


@pytest.mark.parametrize(
    ("pattern", "matches", "differs"),
    [
        # anchors: the whole text, not a line
        ("^a$", "a", "a\n"),
        ("^a$", "a", "b\na"),
        ("a$", "xa", "a\r\n"),
        # classes are about ASCII
        (r"^\d+$", "12", "١٢"),
        (r"^\D$", "١", "1"),
        (r"^\w+$", "a_1", "é"),
        (r"^\W$", "é", "a"),
        (r"^[\d\w]$", "a", "é"),
        (r"^[^\W]$", "a", "é"),
        (r"^[^\d-]$", "٣", "-"),
        # white space has the byte order mark, and no next line
        (r"^\s$", "\ufeff", "\x85"),
        (r"^\s$", "\u2009", "\u200b"),
        (r"^\S$", "\x1c", "\u3000"),
        (r"^[\s\S]$", "\n", ""),
        # word boundaries are ASCII too
        (r"é\ba", "éa", "ba"),
        (r"^\Bé", "éa", "a"),
        (r"\bfoo\b", "(foo)", "foo1"),
        # a dot is no line terminator
        ("^.$", "😀", "\u2028"),
        ("^.$", "\x85", "\r"),
        ("^[^]$", "\n", ""),
        ("^[^]$", "😀", "ab"),
        ("^[]?$", "", "a"),
        # set operations are characters
        ("^[a&&b]+$", "a&b", "c"),
        ("^[a~~b]+$", "a~b", "c"),
        ("^[[a]+$", "[a", "b"),
        ("^[a-z--]$", "-", "_"),
        # escapes
        (r"^\cA$", "\x01", "A"),
        (r"^\cj\0$", "\n\0", "j0"),
        (r"^\x41\u0042\u{43}$", "ABC", "abc"),
        (r"^\u{1F600}$", "😀", "😁"),
        (r"^\ud83d\ude00$", "😀", "😁"),
        (r"^[\u{1F600}-\u{1F64F}]$", "😀", "🙀x"),
        (r"^[\ud83d\ude00]$", "😀", "\ufffd"),
        (r"^[\b]$", "\b", "b"),
        (r"^[\-\]\\]+$", "-]\\", "a"),
        (r"^\-\_\"\@$", '-_"@', "\\-"),
        (r"^\^\$\\\.\*\+\?\(\)\[\]\{\}\|\/$", r"^$\.*+?()[]{}|/", ""),
        ("^é😀 #&~'`,;:<>=!%$", "é😀 #&~'`,;:<>=!%", "é"),
        # properties
        (r"^\p{L}+$", "aéаא", "1"),
        (r"^\P{L}$", "1", "a"),
        (r"^\p{Script=Greek}+$", "αβγ", "a"),
        (r"^[\p{Lu}\d]+$", "ÄÖ1", "a"),
        (r"^[^\p{Nd}]$", "a", "١"),
        (r"\p{Emoji_Presentation}", "😀", "a"),
        # groups
        (r"^(?<year>\d{4})-\k<year>$", "2026-2026", "2026-2027"),
        (r"^(?<$>a)|(?<$>b)$", "b", "c"),
        (r"^(?:(?<x>a)|(?<x>b))\k<x>$", "bb", "ba"),
        (r"^(?:(?<x>a)(?<y>b)|(?:(?<y>c)|(?<x>d)))$", "d", "a"),
        (r"^(a)?b\1$", "b", "ab"),
        (r"^\1(a)$", "a", "aa"),
        (r"^(a\1)$", "a", "aa"),
        (r"^(?!(a))b\1$", "b", "a"),
        (r"^(a)\1{2}$", "aaa", "aa"),
        # look-around
        (r"(?<=\$)\d+", "$42", "42"),
        (r"(?<!a+)b", "cb", "aab"),
        (r"^(?!.*\.\.)[a.]+$", "a.a", "a..a"),
        (r"^(?=.*\d)(?=.*[a-z]).{2,}$", "a1", "aa"),
        # repeats
        ("^a{2}$", "aa", "aaa"),
        ("^a{2,}?$", "aaa", "a"),
        ("^a{0,2}$", "", "aaa"),
        ("^(?:ab){2,3}$", "abab", "ab"),
        # what the engine's optimizer takes for something else
        (r"^\d+\.?\d+$", "12", "1"),
        (r"^\d+a*\d+$", "1a2", "1"),
        (r"^\w+\s*\w+$", "a b", "a"),
        (r"^(?!0)\d+\.?\d+$", "1.2", "1"),
        (r"^(\d)\1\d+\.?\d+$", "1123", "112"),
        (r"^(?=\d+\.?\d+$)", "12", "1"),
    ],
)
def test_pattern_means_what_it_means_in_ecma_262(pattern: str, matches: str, differs: str) -> None:
    assert found(pattern, matches)
    assert not found(pattern, differs)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"\Z", "escape"),
        (r"\A", "escape"),
        (r"\z", "escape"),
        (r"\h", "escape"),
        (r"\a", "escape"),
        (r"\e", "escape"),
        (r"\Q.\E", "escape"),
        (r"\G", "escape"),
        (r"\R", "escape"),
        (r"\é", "escape"),
        (r"\01", "escape"),
        (r"[\1]", "escape"),
        (r"[\B]", "escape"),
        (r"\c1", "escape"),
        (r"\N{DIGIT ONE}", "escape"),
        ("\\", "at the end"),
        (r"\x1", "hexadecimal"),
        (r"\u00e", "hexadecimal"),
        (r"\u{}", "hexadecimal"),
        (r"\u{110000}", "code point"),
        (r"\ud83d", "surrogate"),
        (r"[\ud800-\udfff]", "surrogate"),
        (r"\p", "property"),
        (r"\pL", "property"),
        (r"\p{greek}", "property"),
        (r"\p{Greek}", "property"),
        (r"\p{Script=greek}", "property"),
        (r"\p{IsL}", "property"),
        (r"\p{^L}", "property"),
        ("(?i)a", "`(?`"),
        ("(?i:a)", "`(?`"),
        ("(?P<a>b)", "`(?`"),
        ("(?>a)", "`(?`"),
        ("(?#a)", "`(?`"),
        ("(?|a)", "`(?`"),
        ("(?(1)a)", "`(?`"),
        ("(?<1>a)", "`(?`"),
        ("(?<a>x)(?<a>y)", "same name"),
        ("(?<a>x|(?<a>y))", "same name"),
        ("(?:(?<a>x)|b)(?<a>y)", "same name"),
        ("(?<a>x)(?:b|(?<a>y))", "same name"),
        ("a++", "repeat of nothing"),
        ("a?+", "repeat of nothing"),
        ("*", "repeat of nothing"),
        ("a|?", "repeat of nothing"),
        ("(?=a)*", "repeat of an assertion"),
        ("(?<=a)+", "repeat of an assertion"),
        ("^*", "repeat of an assertion"),
        (r"\b?", "repeat of an assertion"),
        ("a{2,1}", "out of order"),
        ("[b-a]", "out of order"),
        ("[a--b]", "out of order"),
        (r"[\d-z]", "from or to a class"),
        (r"[a-\w]", "from or to a class"),
        ("a{", r"write `\{`"),
        ("a{e}", r"write `\{`"),
        ("a{,3}", r"write `\{`"),
        ("a{1}{2}", r"write `\{`"),
        ("}", r"write `\}`"),
        ("]", r"write `\]`"),
        ("[[:alpha:]]", r"write `\]`"),
        ("[]a]", r"write `\]`"),
        (")", r"write `\)`"),
        ("(", "not closed"),
        ("(?:a", "not closed"),
        ("[a", "not closed"),
        ("[a-", "not closed"),
        ("[" + r"\n" * 249, "not closed"),  # each of which could be one part or two
        (r"\1", "does not exist"),
        (r"(a)\2", "does not exist"),
        (r"\k<a>", "does not exist"),
        (r"\ka", "`<name>`"),
        (r"(?:(a)|b)*\1", "not supported"),
        (r"(?<=(a))\1", "not supported"),
        (r"(a)(?<=\1)", "not supported"),
    ],
)
def test_pattern_that_ecma_262_does_not_know_is_refused_by_name(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidPattern) as caught:
        translate(pattern)
    assert reason in str(caught.value)


def test_every_property_of_ecma_262_that_is_accepted_is_one_of_a_second_engine_too() -> None:
    for name in _LONE_PROPERTIES:
        regress.Regex(rf"\p{{{name}}}", "u")


CHARACTERS: Final = "ab1_-é٣ \n\r\u2028\ufeff\x85😀.[]{}"
ATOMS: Final = (
    *"ab1é😀.-_ ", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\p{L}", r"\P{Lu}", r"\.", r"\n",
    r"\u00e9", r"\u{1F600}", r"\cJ", "[a-b]", "[^a]", r"[^\d\s]", r"[\w-]", "[]", "[^]", "[.[]",
    "[a&&b]", r"[\D1]", r"\b", r"\B", "^", "$", "|",
)  # fmt: skip
REPEATS: Final = ("", "", "", "*", "+", "?", "{2}", "{0,2}", "+?", "{1,}")


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """Patterns of ECMA-262, most of them valid."""
    parts = []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.integers(0, 9))
        atom = draw(st.sampled_from(ATOMS))
        if kind == 0:
            atom = (
                f"({draw(st.sampled_from(['', '?:', '?=', '?!', '?<=', '?<!']))}{draw(patterns())})"
            )
        elif kind == 1:
            atom = rf"\{draw(st.integers(1, 3))}"
        parts.append(atom + draw(st.sampled_from(REPEATS)))
    return "".join(parts)


@given(patterns(), st.lists(st.text(CHARACTERS, max_size=6), min_size=1, max_size=8))
def test_search_finds_what_a_second_engine_finds(pattern: str, texts: list[str]) -> None:
    try:
        second = regress.Regex(pattern, "u")
    except regress.RegressError:
        with pytest.raises(InvalidPattern):
            translate(pattern)
        return
    try:
        first = Pattern(pattern)
        first.compile()
    except InvalidPattern as error:
        refused = str(error)
    except ValidationError:  # not every look-behind of variable length
        refused = "not supported" if "(?<" in pattern else "the translation"
    else:
        for text in texts:
            with within_budget():
                assert first.found_in(text) is (second.find(text) is not None), (pattern, text)
        return
    # the other engine repeats `\b`, which ECMA-262 does not
    assert refused.endswith("not supported") or refused == "a repeat of an assertion"
