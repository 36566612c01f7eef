"""Masking of secrets in what is kept of answers.

Debug pages, error pages and echo services answer with the request that they got, or with their own
settings. What is kept of an answer is shown to everyone who may read the endpoint, so each secret
in it is masked by its value, in every encoding in which a receiver is likely to repeat it.

Letter case does not count: some receivers change it, and a hexadecimal secret is the same in both.
Nor do the characters count in which the two base64 alphabets and the encoding of forms differ: `+`,
`-` and a space are alike, and so are `/` and `_`.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from cachetools import TTLCache

from hookfast.deliveries.evidence import MASK, Start, start_of
from hookfast.endpoints.credentials import Access, Authentication, OAuth2

MIN_SECRET: Final = 8
"""Fewest characters of a secret that is masked wherever it occurs. A shorter one would be found in
ordinary words; only a credential that was sent is masked at any length."""
_MAX_PARTS: Final = 8  # of a header's value, the longest ones: each part costs time at each answer
_MAX_ENCODED_PARTS: Final = 2  # the most that are also looked for in base64 and hexadecimal
_LOOK_AHEAD: Final = 1_024  # bytes beyond a cut, to find a secret that begins before it
_KEPT_SECONDS: Final = 60.0
_KEPT_BYTES: Final = 8 * 1024 * 1024

_MASKED: Final = MASK.encode()
_ALIKE: Final = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ- _", b"abcdefghijklmnopqrstuvwxyz++/")
_SEPARATORS: Final = re.compile(r"[\s,;&=:\"']+")
_ESCAPES: Final = (b"%", b"\\", b"&", b"\n")
_ESCAPED: Final = re.compile(
    rb"%(?P<byte>[0-9A-Fa-f]{2})"
    rb"|\\u(?P<high>[Dd][89ABab][0-9A-Fa-f]{2})\\u(?P<low>[Dd][C-Fc-f][0-9A-Fa-f]{2})"
    rb"|\\u(?P<unit>[0-9A-Fa-f]{4})"
    rb"|\\u\{(?P<point>[0-9A-Fa-f]{1,6})\}"
    rb"|\\x(?P<code>[0-9A-Fa-f]{2})"
    rb"|\\(?P<itself>[\"'/\\])"
    rb"|(?P<entity>&#?[0-9A-Za-z]{1,31};)"
    rb"|(?P<wrap>(?<=\S)(?:(?:\r?\n|(?:\\r)?\\n)[ \t]*(?=[^\s\"{}\[\]<>]|\Z)|(?:\r|\\r\\?)\Z))"
)
"""Percent-encoding, the escapes of JSON and of programming languages, and those of HTML; and line
breaks with the next line's indentation, as a long word has them (base64 after 76 characters: RFC
2045, section 6.8), but not those before JSON's and HTML's punctuation, of which there are many."""
_CUT_ESCAPE: Final = re.compile(
    rb"(?:\\u[Dd][89ABab][0-9A-Fa-f]{2})?"
    rb"\\*(?:%[0-9A-Fa-f]?|[ux]\{?[0-9A-Fa-f]{0,5}|&#?[0-9A-Za-z]{0,31})?\Z"
)
_MAX_ROUNDS: Final = 3
"""How often escapes are resolved, for escapes within escapes such as `%252F`, or HTML in JSON."""


class SecretMasks:
    """The masks of the endpoints to which requests were sent in the last minute."""

    def __init__(self) -> None:
        self._known: TTLCache[tuple[object, ...], SecretMask] = TTLCache(
            _KEPT_BYTES, ttl=_KEPT_SECONDS, getsizeof=lambda mask: mask.size
        )

    def of(self, access: Access, tokens: Sequence[str]) -> Start:
        """Return how to begin what is kept of an answer to requests with the secrets of `access`
        and with the access tokens `tokens`."""
        if not (access.authentication or access.sealed):
            return start_of
        key = (access.authentication, access.sealed, *tokens)
        mask = self._known.get(key)
        if mask is None:
            mask = self._known[key] = SecretMask(access, tokens)
        return mask.start


class SecretMask:
    """Masks the secrets of one version of an endpoint."""

    __slots__ = ("_needles",)

    def __init__(self, access: Access, tokens: Sequence[str] = ()) -> None:
        whole, parts = set(tokens), set[str]()
        for credential in access.authentication:
            whole.update(credential.secrets)
        for value in access.sealed:
            known = {value, *_after_scheme(value)}
            whole.update(known)
            some = _parts(value, known)
            (whole if len(some) <= _MAX_ENCODED_PARTS else parts).update(some)
        needles = {
            needle
            for values, forms in ((whole, _encoded), (parts, _as_it_is))
            for value in values
            if len(value) >= MIN_SECRET
            for needle in forms(value)
            if len(needle) >= MIN_SECRET
        }
        needles.update(one.encode() for one in (*_sent(access.authentication), *tokens))
        self._needles = tuple({needle.translate(_ALIKE) for needle in needles if needle})

    @property
    def size(self) -> int:
        """How many bytes of memory the mask takes, roughly."""
        return sum(100 + len(needle) for needle in self._needles)

    def start(self, data: bytes, limit: int, *, cut: bool = False) -> tuple[bytes, bool]:
        """Return the first `limit` bytes of `data` without secrets, and whether there is more; with
        `cut`, there is. A secret that was cut is masked from 8 characters on."""
        more = cut or len(data) > limit
        if not more and self._is_clean(data):
            return data, False
        window = data[: limit + _LOOK_AHEAD]
        spans = self._found(window, is_cut=more)
        if not spans:
            return data[:limit], more
        return _replaced(window, spans)[:limit], more

    def _is_clean(self, data: bytes) -> bool:
        """Whether a text has neither secrets nor escapes, as most have: a search for spans takes
        three times as long."""
        if b"%" in data or b"\\" in data or b"&" in data or b"\n" in data:
            return False
        text = data.translate(_ALIKE)
        for needle in self._needles:  # noqa: SIM110 - `any` takes twice as long
            if needle in text:
                return False
        return True

    def _found(self, data: bytes, *, is_cut: bool) -> list[tuple[int, int]]:
        """Return the spans of secrets in `data`, also in the texts that its escapes stand for."""
        spans = list(self._spans(data, is_cut=is_cut))
        resolved: list[_Resolved] = []
        text = data
        for _ in range(_MAX_ROUNDS):
            view = _resolve(text)
            if view is None:
                break
            resolved.append(view)
            text = view.text
            for span in self._spans(text, is_cut=is_cut):
                for each in reversed(resolved):
                    span = each.origin(span)
                spans.append(span)
        return spans

    def _spans(self, text: bytes, *, is_cut: bool) -> Iterator[tuple[int, int]]:
        ends = {len(text), _end_of_escapes(text)} if is_cut else ()
        text = text.translate(_ALIKE)
        for needle in self._needles:
            at = text.find(needle)
            while at >= 0:
                yield at, at + len(needle)
                at = text.find(needle, at + len(needle))
            for end in ends:
                if (at := _begun(text[:end], needle)) >= 0:
                    yield at, len(text)


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A text with its escapes resolved. It consists of pieces, by turns taken over as they were
    (perhaps empty) and resolved. `starts` are the places of the pieces in `text`, `origins` those
    in the text before."""

    text: bytes
    starts: list[int]
    origins: list[int]

    def origin(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return the span of the text before that resolves to this span."""
        first, last = span[0], span[1] - 1
        piece = bisect_right(self.starts, first) - 1
        begin = self.origins[piece]
        if piece % 2 == 0:
            begin += first - self.starts[piece]
        piece = bisect_right(self.starts, last) - 1
        if piece % 2:
            return begin, self.origins[piece + 1]
        return begin, self.origins[piece] + last - self.starts[piece] + 1


def _resolve(data: bytes) -> _Resolved | None:
    """Resolve all escapes once. None if there are none."""
    if not any(mark in data for mark in _ESCAPES):
        return None
    starts, origins, parts = [0], [0], list[bytes]()
    end = size = 0
    for escape in _ESCAPED.finditer(data):
        resolved = _meaning(escape)
        if resolved is None:
            continue
        kept = data[end : escape.start()]
        end = escape.end()
        starts += (size + len(kept), size := size + len(kept) + len(resolved))
        origins += (escape.start(), end)
        parts += (kept, resolved)
    if not parts:
        return None
    return _Resolved(b"".join((*parts, data[end:])), starts, origins)


def _meaning(escape: re.Match[bytes]) -> bytes | None:
    """Return what an escape stands for, or None if it is not an escape."""
    text = escape[escape.lastgroup or 0]
    match escape.lastgroup:
        case "byte" | "code":
            return bytes((int(text, 16),))
        case "low":
            pair = b"".join((escape["high"], text))
            return binascii.unhexlify(pair).decode("utf-16-be").encode()
        case "unit" | "point":
            point = int(text, 16)
            is_character = point < 0xD800 or 0xE000 <= point <= 0x10FFFF
            return chr(point).encode() if is_character else None
        case "itself":
            return text
        case "wrap":
            return b""
        case _:
            entity = text.decode()
            resolved = html.unescape(entity)
            return None if resolved == entity else resolved.encode()


def _end_of_escapes(text: bytes) -> int:
    """Return where a text that was cut ends without an escape that was cut in two."""
    escape = _CUT_ESCAPE.search(text, max(0, len(text) - 40))
    return len(text) if escape is None else escape.start()


def _begun(text: bytes, needle: bytes) -> int:
    """Return where a secret begins of which `text` ends with at least 8 characters, or -1."""
    at = text.find(needle[:MIN_SECRET], max(0, len(text) - len(needle)))
    while at >= 0 and not needle.startswith(text[at:]):
        at = text.find(needle[:MIN_SECRET], at + 1)
    return at


def _replaced(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return `data` with one mask for each group of spans that overlap."""
    parts, end = list[bytes](), 0
    for begin, until in sorted(spans):
        if begin >= end:
            parts += (data[end:begin], _MASKED)
        end = max(end, until)
    return b"".join((*parts, data[end:]))


def _encoded(value: str) -> Iterator[bytes]:
    """Yield a secret in each encoding that hides its characters. Within a longer text, base64 has
    three forms, without the characters that also depend on what is around it."""
    for raw in _as_it_is(value):
        yield raw
        yield raw.hex().encode()
        for before in range(3):
            form = base64.b64encode(bytes(before) + raw)
            yield form[(8 * before + 5) // 6 : 8 * (before + len(raw)) // 6]


def _as_it_is(value: str) -> Iterator[bytes]:
    """Yield a secret as bytes, and with what looks like an escape in it resolved. Many servers read
    or write a password that is not ASCII as Latin-1 (RFC 7617, section 2, leaves it undefined)."""
    raw = value.encode()
    yield raw
    for _ in range(_MAX_ROUNDS):
        view = _resolve(raw)
        if view is None:
            break
        raw = view.text
        yield raw
    if not value.isascii():
        yield value.encode().decode("latin-1").encode()
        if max(value) <= "\xff":
            yield value.encode("latin-1")


def _after_scheme(value: str) -> Iterator[str]:
    """Yield the credentials of a header's value with a scheme (RFC 9110, section 11.4)."""
    scheme, _, credentials = value.partition(" ")
    yield credentials.strip()
    if scheme.lower() != "basic":
        return
    try:
        pair = base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return
    user, _, password = pair.partition(":")
    yield from (pair, user, password)


def _parts(value: str, known: set[str]) -> list[str]:
    """Return the parts of a header's value that a receiver may repeat alone, such as the value of
    a cookie: the longest ones, without those in `known`."""
    parts = {*value.split(), *_SEPARATORS.split(value)} - known
    return nlargest(_MAX_PARTS, (part for part in parts if len(part) >= MIN_SECRET), key=len)


def _sent(authentication: Iterable[Authentication]) -> Iterator[str]:
    """Yield the credentials as `Authorization` has them, whatever their length."""
    for credential in authentication:
        if not isinstance(credential, OAuth2):
            yield credential.authorization.partition(" ")[2]
