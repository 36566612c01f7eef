"""Every file that the documentation of the code names exists."""

from __future__ import annotations

import re

import pytest

from tests.docs.fenced import ROOT

PAGES = ("docs/architecture.md", "CONTRIBUTING.md", "docs/security.md")
_PATH = re.compile(
    r"(?<![\w./-])((?:api|activities|bench|docs|hookfast|packages|tests|workflows)/[\w./-]*[\w/]|worker\.py)"
)
NAMED = sorted(
    {(page, path) for page in PAGES for path in _PATH.findall((ROOT / page).read_text())}
)


@pytest.mark.parametrize(("page", "path"), NAMED)
def test_every_path_that_a_page_names_exists(page: str, path: str) -> None:
    assert (ROOT / path).exists(), f"{page} names {path}"


def test_the_architecture_page_names_every_layer() -> None:
    named = {path for page, path in NAMED if page == "docs/architecture.md"}
    for folder in ("api/", "activities/", "workflows/", "hookfast/dispatch/", "hookfast/storage/"):
        assert any(path.startswith(folder) and path.endswith(".py") for path in named), folder
