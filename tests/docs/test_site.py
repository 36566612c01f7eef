"""The documentation site builds without warnings, has no dead links, and needs no other server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.fenced import DOCS, PAGES, ROOT


@pytest.mark.slow  # a build takes 20 s; links and anchors are also checked page by page
def test_the_site_is_complete_and_loads_nothing_from_other_servers(tmp_path: Path) -> None:
    site = tmp_path / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = {path: Links(path) for path in site.rglob("*.html")}
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("")
        folder = site if name.name == "index" else site / name
        assert folder / "index.html" in pages, f"{page} is not in the site"
    assert len(pages) > 50
    for path, links in pages.items():
        if path.name == "404.html":
            continue  # it may be shown at any address, so its links begin at the root
        for goal, anchor in links.internal():
            assert goal.exists(), f"{path} links to {goal}"
            if anchor and goal.suffix == ".html":
                assert anchor in pages[goal].ids, f"{path} links to {goal}#{anchor}"
        assert links.fetched_from_elsewhere == [], path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_pages_links_also_work_in_the_repository(page: Path) -> None:
    for target in re.findall(r"\]\((?![a-z]+:|#)([^)\s#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


class Links(HTMLParser):
    """The links of a page, the files that it loads from elsewhere, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._links: list[str] = []
        self.ids: set[str] = set()
        self.fetched_from_elsewhere: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if identifier := values.get("id"):
            self.ids.add(identifier)
        for name in ("href", "src"):
            if not (url := values.get(name)):
                continue
            if not urlsplit(url).scheme and not url.startswith("//"):
                self._links.append(url)
            elif tag != "a" and not url.startswith("data:"):
                self.fetched_from_elsewhere.append(url)

    def internal(self) -> Iterator[tuple[Path, str]]:
        """Yield the files of the site that the page links to, with the anchors."""
        for link in self._links:
            split = urlsplit(link)
            goal = (self._path.parent / unquote(split.path)).resolve() if split.path else self._path
            yield goal / "index.html" if goal.is_dir() else goal, unquote(split.fragment)
