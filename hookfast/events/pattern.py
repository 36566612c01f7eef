r"""Translates the regular expressions of JSON Schema to those of the engine that runs them. Pure.

The dialect is that of ECMA-262 with the flag `u` (JSON Schema Core, section 6.4): `\d`, `\w` and
`\b` are about ASCII, `$` is the very end of the text, and a dot is no line terminator. Beyond it,
any sign may be escaped, as without the flag: `\-` and `\"` are signs.

The engine, Rust's `regex`, reads many patterns differently, such as `[a&&b]` or `.`. So the
translation uses only what means the same to every engine of this kind: code points in hexadecimal,
classes of ranges, and groups. What ECMA-262 does not know, or the engine cannot do, is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final


class InvalidPattern(ValueError):
    """The pattern is not one of ECMA-262, or it cannot be translated; the message says why."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A pattern as the engine reads it."""

    text: str
    places: int
    """The characters and classes of the pattern, its repeats written out: a search in n characters
    takes at most about 10 ns times n times this."""
    has_properties: bool
    """Whether it has Unicode properties, each of which has some hundred ranges."""
    backtracks: bool
    """Whether it looks around or back, which takes more than linear time in the worst case."""

    @property
    def size(self) -> int:
        """About how large the compiled pattern is: a place of a few ranges has one."""
        return self.places * (_PROPERTY_SIZE if self.has_properties else 1)


def translate(pattern: str) -> Translated:
    """Translate a pattern of ECMA-262. Raises InvalidPattern."""
    return _Translator(pattern).translate()


# The code points of the classes, in the notation within brackets.
_CLASSES: Final = {
    "d": "0-9",
    "D": r"\x{0}-\x{2F}\x{3A}-\x{10FFFF}",
    "w": "0-9A-Z_a-z",
    "W": r"\x{0}-\x{2F}\x{3A}-\x{40}\x{5B}-\x{5E}\x{60}\x{7B}-\x{10FFFF}",
    "s": r"\x{9}-\x{D}\x{20}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}-\x{2029}\x{202F}\x{205F}"
    r"\x{3000}\x{FEFF}",
    "S": r"\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}"
    r"\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}"
    r"\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}",
}
_WORD: Final = _CLASSES["w"]
_DOT: Final = r"[^\x{A}\x{D}\x{2028}\x{2029}]"
_ALL: Final = r"[\x{0}-\x{10FFFF}]"
_NOTHING: Final = r"[^\x{0}-\x{10FFFF}]"
# the engine's own \b is that of Unicode
_BOUNDARIES: Final = {
    "b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    "B": f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_GROUPS: Final = ("(?:", "(?=", "(?!", "(?<=", "(?<!")
_LOOK_BEHIND: Final = ("(?<=", "(?<!")
_LONE: Final = {
    "]": "a `]` that closes nothing; write `\\]`",
    "{": "a `{` that begins no repeat; write `\\{`",
    "}": "a `}` that closes nothing; write `\\}`",
    "*": "a repeat of nothing",
    "+": "a repeat of nothing",
    "?": "a repeat of nothing",
}
_APART: Final = "(?=)"
"""Look for nothing. Before a pattern with back references, it also keeps jsonschema-rs, which does
not know conditions such as `(?(1)…)`, from reading the pattern. Its engine knows them."""

_EMPTY: Final = "a{0}"
"""Added to each repeated group, because the engine refuses to repeat a group that is empty or only
an assertion."""

_PROPERTY_SIZE: Final = 50
_MAX_PLACES: Final = 1_000_000_000

_REFERENCE: Final = re.compile(r"\\([1-9][0-9]*)")
_DECIMAL: Final = re.compile("[0-9]")
_LETTER: Final = re.compile("[A-Za-z]")
_HEX: Final = re.compile("[0-9A-Fa-f]{2}")
_UNICODE: Final = re.compile(r"[0-9A-Fa-f]{4}|\{0*[0-9A-Fa-f]{1,6}\}")
_LOW_SURROGATE: Final = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_QUANTIFIER: Final = re.compile(r"([*+?]|\{([0-9]+)(,([0-9]*))?\})\??")
_NAME: Final = re.compile(r"<((?!\d)[\w$]+)>")
_PROPERTY: Final = re.compile(r"\{(?:([A-Za-z_]+)=)?([A-Za-z0-9_]+)\}")

# ECMA-262, tables "Binary Unicode property aliases" and "Value aliases for General_Category". The
# engine is less strict: it would take `\p{greek}` for a script.
_BINARY: Final = """
    ASCII ASCII_Hex_Digit AHex Alphabetic Alpha Any Assigned Bidi_Control Bidi_C Bidi_Mirrored
    Bidi_M Case_Ignorable CI Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM
    Changes_When_Lowercased CWL Changes_When_NFKC_Casefolded CWKCF Changes_When_Titlecased CWT
    Changes_When_Uppercased CWU Dash Default_Ignorable_Code_Point DI Deprecated Dep Diacritic Dia
    Emoji Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase Emoji_Presentation
    EPres Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base Grapheme_Extend Gr_Ext
    Hex_Digit Hex IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST ID_Continue IDC ID_Start IDS
    Ideographic Ideo Join_Control Join_C Logical_Order_Exception LOE Lowercase Lower Math
    Noncharacter_Code_Point NChar Pattern_Syntax Pat_Syn Pattern_White_Space Pat_WS Quotation_Mark
    QMark Radical Regional_Indicator RI Sentence_Terminal STerm Soft_Dotted SD Terminal_Punctuation
    Term Unified_Ideograph UIdeo Uppercase Upper Variation_Selector VS White_Space space
    XID_Continue XIDC XID_Start XIDS
"""
_GENERAL: Final = """
    Cased_Letter LC Close_Punctuation Pe Connector_Punctuation Pc Control Cc cntrl Currency_Symbol
    Sc Dash_Punctuation Pd Decimal_Number Nd digit Enclosing_Mark Me Final_Punctuation Pf Format Cf
    Initial_Punctuation Pi Letter L Letter_Number Nl Line_Separator Zl Lowercase_Letter Ll Mark M
    Combining_Mark Math_Symbol Sm Modifier_Letter Lm Modifier_Symbol Sk Nonspacing_Mark Mn Number N
    Open_Punctuation Ps Other C Other_Letter Lo Other_Number No Other_Punctuation Po Other_Symbol So
    Paragraph_Separator Zp Private_Use Co Punctuation P punct Separator Z Space_Separator Zs
    Spacing_Mark Mc Surrogate Cs Symbol S Titlecase_Letter Lt Unassigned Cn Uppercase_Letter Lu
"""
_CATEGORIES: Final = frozenset(_GENERAL.split())
_LONE_PROPERTIES: Final = _CATEGORIES | frozenset(_BINARY.split())
_SCRIPT: Final = re.compile(r"[A-Z][a-z]+(?:_[A-Z][a-z]+|W[a-z]+)*")
_SCRIPT_PREFIXES: Final = ("Script", "sc", "Script_Extensions", "scx")


@dataclass(slots=True)
class _Group:
    """A group that is open: where it began, and what is known of it so far."""

    opening: str
    first: int
    """The number of the first capturing group that it is or contains."""
    place: int
    """Where its opening is in the translation."""
    number: int | None = None
    names: set[str] = field(default_factory=set)
    """The names of groups in all its alternatives so far."""
    names_here: set[str] = field(default_factory=set)
    """The names of groups in the alternative that is being read."""
    branches: int = 1
    places: int = 0

    def add_names(self, names: set[str]) -> None:
        self.names |= names
        self.names_here |= names


@dataclass(slots=True)
class _Captures:
    """The capturing groups of a pattern, and which of them a back reference may mean."""

    count: int = 0
    names: dict[str, list[int]] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    """Groups that may have no part in a match."""
    stale: set[int] = field(default_factory=set)
    """Groups that a repeat may pass without them. They are then unset in ECMA-262, but not in the
    engine."""
    behind: set[int] = field(default_factory=set)
    referenced: set[int] = field(default_factory=set)


class _Translator:
    """Reads a pattern from left to right, and writes each part as the engine reads it."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        self._open = [_Group("", 1, 0)]
        self._captures = _Captures()
        self._numbers, self._names, self._refers = _survey(pattern)
        self._has_properties = False
        self._backtracks = False

    def translate(self) -> Translated:
        while self._at < len(self._pattern):
            self._part()
        if len(self._open) > 1:
            raise InvalidPattern("a group that is not closed")
        stale = self._captures.referenced & self._captures.stale
        if stale or self._captures.referenced & self._captures.behind:
            raise InvalidPattern(
                "a back reference to a group in a look-behind, or to a group that a repeat may "
                "leave out, is not supported"
            )
        text = "".join(self._out)
        if self._captures.referenced:
            text = _APART + text
        return Translated(text, self._open[0].places, self._has_properties, self._backtracks)

    def _part(self) -> None:
        """Translate an assertion, an alternative's end, or an atom with its repeat."""
        char = self._pattern[self._at]
        first, repeatable, places = self._captures.count + 1, True, 1
        if char in _LONE:
            raise InvalidPattern(_LONE[char])
        if char == "(":
            self._begin_group()
            return
        if char == ")":
            first, repeatable, places = self._end_group()
        elif char == "|":
            self._at += 1
            self._out.append("|")
            self._open[-1].branches += 1
            self._open[-1].names_here = set()
            return
        elif char in "^$":
            self._at += 1
            self._out.append(char)
            repeatable, places = False, 0
        elif char == ".":
            self._at += 1
            self._out.append(_DOT)
        elif char == "[":
            self._class()
        elif char == "\\":
            repeatable = self._escape()
        else:
            self._at += 1
            self._out.append(_literal(_scalar(char)))
        self._open[-1].places += self._repeat(first, places, repeatable=repeatable)

    # groups

    def _begin_group(self) -> None:
        rest = self._pattern[self._at :]
        group = _Group("(", self._captures.count + 1, len(self._out))
        for opening in _GROUPS:
            if rest.startswith(opening):
                group.opening = opening
                self._at += len(opening)
                break
        else:
            self._at += 1
            if rest.startswith("(?"):
                self._at += 1
                name = self._group_name()
                if any(name in one.names_here for one in self._open):
                    raise InvalidPattern("two groups of the same name; rename one")
                self._captures.names.setdefault(name, []).append(group.first)
                self._open[-1].add_names({name})
            self._captures.count = group.number = group.first
        if group.opening in _GROUPS[1:]:
            self._backtracks = True
        self._out.append(group.opening)
        self._open.append(group)

    def _end_group(self) -> tuple[int, bool, int]:
        if len(self._open) == 1:
            raise InvalidPattern("a `)` that closes nothing; write `\\)`")
        self._at += 1
        self._out.append(")")
        group, captures = self._open.pop(), self._captures
        self._open[-1].add_names(group.names)
        if _QUANTIFIER.match(self._pattern, self._at):
            self._out.insert(group.place + 1, _EMPTY)
        inside = set(range(group.first, captures.count + 1))
        if group.branches > 1:
            captures.skipped |= inside - {group.number}
        if group.opening == "(?!":
            captures.skipped |= inside
        if group.opening in _LOOK_BEHIND:
            captures.behind |= inside
        if group.number is not None:
            captures.closed.add(group.number)
        return group.first, group.opening in ("(", "(?:"), group.places

    def _group_name(self) -> str:
        found = _NAME.match(self._pattern, self._at)
        if found is None:
            if self._pattern[self._at - 2 : self._at] == "(?":
                raise InvalidPattern(
                    "a group that begins with `(?`, of a kind that is not supported"
                )
            raise InvalidPattern("a `\\k` without the `<name>` of a group")
        self._at = found.end()
        return found[1]

    # repeats

    def _repeat(self, first: int, places: int, *, repeatable: bool) -> int:
        """Translate the repeat after an atom, if it has one. Return the places of both."""
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None:
            return places
        if not repeatable:
            raise InvalidPattern("a repeat of an assertion")
        self._at = found.end()
        least, most = _bounds(found)
        if most is not None and most < least:
            raise InvalidPattern("a repeat whose bounds are out of order")
        # Whether the shortest or the longest match is tried first makes no difference to whether
        # there is one, except for what a back reference means. The engine's optimizer takes
        # `\d+\.?\d+` for `\d+(\.\d+)?`, but leaves alone what is lazy, or stands apart.
        self._out.append(f"{found[0]}{_APART}" if self._refers else f"{found[1]}?")
        captures = self._captures
        inside = set(range(first, captures.count + 1))
        if most is None or most > 1:
            captures.stale |= inside & captures.skipped
        if least == 0:
            captures.skipped |= inside
        return min(places * max(most if most is not None else least, 1), _MAX_PLACES)

    # escapes

    def _escape(self) -> bool:
        """Translate an escape outside classes. Return whether it may be repeated."""
        char = self._pattern[self._at + 1 : self._at + 2]
        if char in _BOUNDARIES:
            self._at += 2
            self._out.append(_BOUNDARIES[char])
            self._backtracks = True
            return False
        if char == "k":
            self._at += 2
            name = self._group_name()
            if name not in self._names:
                raise InvalidPattern("a back reference to a group that does not exist")
            self._refer(self._captures.names.get(name, []))
        elif found := _REFERENCE.match(self._pattern, self._at):
            self._at = found.end()
            if int(found[1]) > self._numbers:
                raise InvalidPattern("a back reference to a group that does not exist")
            self._refer([int(found[1])])
        else:
            kind = self._class_escape()
            self._out.append(f"[{kind}]" if isinstance(kind, str) else _literal(kind))
        return True

    def _refer(self, numbers: list[int]) -> None:
        """Refer back to the group that has a match, if any. A group without a match, or not yet
        closed, is empty."""
        if any(group.opening in _LOOK_BEHIND for group in self._open):
            raise InvalidPattern("a back reference in a look-behind is not supported")
        closed = [number for number in numbers if number in self._captures.closed]
        self._captures.referenced.update(closed)
        self._backtracks = True
        conditional = "".join(rf"(?({number})\{number}|)" for number in closed)
        self._out.append(f"(?:{_EMPTY}{conditional})")

    def _class_escape(self) -> str | int:
        """Read an escape that is allowed in classes too. Return its class or its code point."""
        pattern, at = self._pattern, self._at + 1
        char = pattern[at : at + 1]
        self._at += 2
        if char in _CLASSES:
            return _CLASSES[char]
        if char in ("p", "P"):
            return self._property(char)
        if char in _CONTROLS:
            return ord(_CONTROLS[char])
        if char == "0" and not _DECIMAL.match(pattern, at + 1):
            return 0
        if char == "c" and _LETTER.match(pattern, at + 1):
            self._at += 1
            return ord(pattern[at + 1]) % 32
        if char in ("x", "u"):
            return self._code_point(char)
        if char and not char.isalnum():
            return _scalar(char)
        raise InvalidPattern(f"`\\{char}` is no escape" if char else "a `\\` at the end")

    def _code_point(self, kind: str) -> int:
        found = (_HEX if kind == "x" else _UNICODE).match(self._pattern, self._at)
        if found is None:
            raise InvalidPattern(f"a `\\{kind}` without the hexadecimal digits of a character")
        self._at = found.end()
        code = int(found[0].strip("{}"), 16)
        low = _LOW_SURROGATE.match(self._pattern, self._at)
        if 0xD800 <= code < 0xDC00 and found[0][0] != "{" and low is not None:
            self._at = low.end()
            code = 0x10000 + ((code - 0xD800) << 10) + (int(low[1], 16) - 0xDC00)
        if code > 0x10FFFF:
            raise InvalidPattern("a code point above 10FFFF")
        return _scalar(chr(code))

    def _property(self, kind: str) -> str:
        found = _PROPERTY.match(self._pattern, self._at)
        if found is None:
            raise InvalidPattern(f"a `\\{kind}` without a `{{property}}`")
        self._at = found.end()
        prefix, name = found.groups()
        if prefix in _SCRIPT_PREFIXES:
            known = _SCRIPT.fullmatch(name) is not None
        elif prefix is None:
            known = name in _LONE_PROPERTIES
        else:
            known = prefix in ("General_Category", "gc") and name in _CATEGORIES
        if not known:
            raise InvalidPattern(f"`\\{kind}{found[0]}` is no property of ECMA-262")
        self._has_properties = True
        return f"\\{kind}{found[0]}"

    # classes

    def _class(self) -> None:
        """Translate a class in brackets."""
        negated = self._pattern.startswith("[^", self._at)
        self._at += 2 if negated else 1
        items: list[str] = []
        while not self._pattern.startswith("]", self._at):
            low = self._class_atom()
            if self._pattern.startswith("-", self._at) and not self._pattern.startswith(
                "-]", self._at
            ):
                self._at += 1
                high = self._class_atom()
                if isinstance(low, str) or isinstance(high, str):
                    raise InvalidPattern("a range from or to a class; write `\\-` for a hyphen")
                if low > high:
                    raise InvalidPattern("a range in a class that is out of order")
                items.append(f"{_in_class(low)}-{_in_class(high)}")
            else:
                items.append(low if isinstance(low, str) else _in_class(low))
        self._at += 1
        if items:
            self._out.append(f"[{'^' if negated else ''}{''.join(items)}]")
        else:
            self._out.append(_ALL if negated else _NOTHING)

    def _class_atom(self) -> str | int:
        char = self._pattern[self._at : self._at + 1]
        if not char:
            raise InvalidPattern("a class that is not closed")
        if char != "\\":
            self._at += 1
            return _scalar(char)
        if self._pattern.startswith("\\b", self._at):
            self._at += 2
            return 8
        return self._class_escape()


def _bounds(quantifier: re.Match[str]) -> tuple[int, int | None]:
    """Return the least and the most repeats; None for any number."""
    sign, least, comma, most = quantifier.groups()
    if least is None:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
    if comma is None:
        return int(least), int(least)
    return int(least), int(most) if most else None


_TOKENS: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\((?:\?(?:<(?![=!])([^>]*)>|(.))?)?", re.S)


def _survey(pattern: str) -> tuple[int, set[str], bool]:
    """Return how many capturing groups a pattern has, their names, and whether it refers back."""
    count, names, refers = 0, set(), False
    for found in _TOKENS.finditer(pattern):
        if found[0].startswith("(") and found[2] is None:
            count += 1
            if found[1]:
                names.add(found[1])
        refers = refers or (found[0][0] == "\\" and found[0][1] in "123456789k")
    return count, names, refers


def _scalar(char: str) -> int:
    code = ord(char)
    if 0xD800 <= code < 0xE000:
        raise InvalidPattern("half of a surrogate pair; write the code point, e.g. `\\u{1F600}`")
    return code


def _literal(code: int) -> str:
    char = chr(code)
    return char if char.isalnum() or char in "-_/" else rf"\x{{{code:X}}}"


def _in_class(code: int) -> str:
    return rf"\x{{{code:X}}}"
