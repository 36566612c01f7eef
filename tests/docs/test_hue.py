"""One hue over the dashboard, the API reference at `/docs` and the documentation's site."""

from __future__ import annotations

import re

from tests.docs.fenced import DOCS, ROOT

STATIC = ROOT / "api" / "site" / "static"
THEME = DOCS / "theme"


def _tokens(css: str) -> dict[str, str]:
    """Return the custom properties of the first `:root` of a style sheet."""
    [root, *_] = re.findall(r"^:root \{(.*?)^\}", css, re.M | re.S)
    return dict(re.findall(r"(--[\w-]+): ([^;]+);", root))


def test_api_reference_has_the_colours_of_the_dashboard() -> None:
    of_pages = _tokens((STATIC / "site.css").read_text())
    of_docs = _tokens((STATIC / "docs.css").read_text())
    assert len(of_docs) > 10
    assert {name: of_pages[name] for name in of_docs} == of_docs


def test_documentation_has_the_accent_of_the_dashboard_and_its_logo() -> None:
    tokens = _tokens((STATIC / "site.css").read_text())
    css = (THEME / "site.css").read_text()
    light, dark = re.findall(r"\[data-md-color-scheme=\"\w+\"\] \{(.*?)\n\}", css, re.S)
    for token, member in (
        ("--link", "--md-typeset-a-color"),
        ("--text", "--md-default-fg-color"),
        ("--muted", "--md-default-fg-color--light"),
        ("--focus", "--md-accent-fg-color"),
    ):
        pair = (dict(re.findall(r"(--[\w-]+): ([^;]+);", each))[member] for each in (light, dark))
        assert tokens[token] == f"light-dark({', '.join(pair)})"
    assert (THEME / "mark.svg").read_bytes() == (STATIC / "mark.svg").read_bytes()
