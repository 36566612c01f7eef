"""The look of the portal: a platform's name, logo and accent colour, with enough contrast. Pure.

The settings have the look of every tenant's portal; a tenant may have one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

MAX_NAME: Final = 80
MAX_LOGO: Final = 500
"""Characters of a name, and of the URL of a logo."""

_ACCENT = re.compile(r"#?([0-9a-fA-F]{6})", re.ASCII)
_ORIGIN = re.compile(r"(https?)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.ASCII)
_LOGO = re.compile(rf"(?=https:){_ORIGIN.pattern}(/[!-~]*)?", re.ASCII)
_LOCAL: Final = ("localhost", "127.0.0.1")
_LIGHT_CONTRAST: Final = 4.5
"""WCAG 2.2, 1.4.3: text and its background."""
_DARK_CONTRAST: Final = 7.0
"""WCAG 2.2, 1.4.6: coloured text looks dull on a dark background with less."""
_LIGHT_GROUND: Final = "#f0f2f5"
_DARK_GROUND: Final = "#1f252e"
"""The backgrounds of links: the darkest of the light theme, and the lightest of the dark theme."""
_STEPS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Brand:
    """The look of a portal. `accent` is a colour such as `#4338ca`; `logo_url` None: the name is
    shown alone."""

    name: str
    logo_url: str | None
    accent: str

    def of_tenant(self, own: Mapping[str, str] | None) -> Brand:
        """Return the tenant's look: its own, and this shared one where it has none."""
        return replace(self, **{each: own[each] for each in BRAND if each in own}) if own else self


BRAND: Final = tuple(field.name for field in fields(Brand))
"""The members of a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accent:
    """An accent colour where it is needed: behind text, the colour of that text, as text of the
    light theme, and as text of the dark one."""

    ground: str
    on_ground: str
    light: str
    dark: str


def parse_accent(text: str) -> str:
    """Return a colour such as `#4338ca`, also for `4338CA`. Raises ValueError."""
    match = _ACCENT.fullmatch(text)
    if match is None:
        raise ValueError("give a colour as # and six hexadecimal digits, such as #4338ca")
    return f"#{match[1].lower()}"


def parse_logo_url(text: str) -> str:
    """Return the https URL of a logo. Raises ValueError."""
    # its origin becomes a part of the header Content-Security-Policy
    if len(text) > MAX_LOGO or _LOGO.fullmatch(text) is None:
        raise ValueError(
            f"give an https URL in ASCII of at most {MAX_LOGO} characters, without a password"
        )
    return text


def parse_origin(text: str) -> str:
    """Return an origin such as `https://app.example.com`, or `http://localhost:3000` for work on
    one's own machine. Raises ValueError."""
    origin = text.removesuffix("/").lower()
    match = _ORIGIN.fullmatch(origin)
    if match is None or (match[1] == "http" and match[2] not in _LOCAL):
        raise ValueError(
            f"{text!r} is not an origin, such as https://app.example.com (http only for localhost)"
        )
    return origin


def origin_of(url: str) -> str:
    """Return the origin of a logo's URL."""
    match = _ORIGIN.match(url)
    assert match is not None  # noqa: S101 - it was parsed
    return match[0]


def accent_of(color: str) -> Accent:
    """Return the variants of an accent colour: its text has a contrast of at least 4.5 to 1, and of
    7 to 1 in the dark theme."""
    return Accent(
        ground=color,
        # the better of the two is at least 4.58 to 1 on any colour
        on_ground=max("#ffffff", "#000000", key=lambda text: contrast(text, color)),
        light=_mixed_until(color, "#000000", _LIGHT_GROUND, _LIGHT_CONTRAST),
        dark=_mixed_until(color, "#ffffff", _DARK_GROUND, _DARK_CONTRAST),
    )


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.2, "contrast ratio")."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _mixed_until(color: str, other: str, ground: str, least: float) -> str:
    """Return the colour with as little of the other as gives this contrast with the ground."""
    for step in range(_STEPS + 1):
        mixed = _mix(color, other, step / _STEPS)
        if contrast(mixed, ground) >= least:
            return mixed
    return other


def _mix(color: str, other: str, share: float) -> str:
    pairs = zip(_channels(color), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:], 16)


def _luminance(color: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    red, green, blue = (_linear(each / 255) for each in _channels(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)
