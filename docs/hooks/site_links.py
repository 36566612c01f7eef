"""MkDocs hook: makes links from `docs/` into the repository work on the site.

Pages are also read on a forge, so they link to files beside `docs/`
(`../deploy/prometheus/rules.yml`) and to programs in it (`examples/receiver.py`). The site gets a
page with the file's text under `sources/`, to which the link leads. A folder's page lists its
files.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?![a-z]+:|#|/)([^)\s#]+)(#[^)\s]*)?\)")
_ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")
"""Pages of the site that are at the root of the repository, where a forge expects them."""
_LANGUAGES = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".sh": "sh"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each root page, and for each file of the repository that a page links to."""
    pages = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    pages += [(_page_uri(name), (_ROOT / name).read_text()) for name in _ROOT_PAGES]
    links = [(uri, link[0]) for uri, text in pages for link in _LINK.findall(text)]
    targets = {*_ROOT_PAGES} | {path for link in links if (path := _source(*link))}
    for source in sorted(targets):
        text = _page(_ROOT / source)
        if source not in _ROOT_PAGES:  # a search should find the guides
            text = f"---\nsearch:\n  exclude: true\n---\n{text}"
        files.append(File.generated(config, _page_uri(source), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links to files of the repository by links to their pages."""
    uri = page.file.src_uri

    def replaced(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        if target.endswith("openapi.json") and not uri.startswith("api/"):
            goal = "api/index.md"  # on a forge there is only the document
        elif source := _source(uri, target):
            goal = _page_uri(source)
        elif uri.startswith("sources/"):
            goal = target.removeprefix("docs/")
        else:
            return match[0]
        return f"]({posixpath.relpath(goal, posixpath.dirname(uri) or '.')}{anchor})"

    return _LINK.sub(replaced, markdown)


def _source(page: str, target: str) -> str | None:
    """Return the path in the repository of a link's target, if it needs its own page."""
    if page.startswith("api/"):
        return None
    folder = "" if page.startswith("sources/") else posixpath.join("docs", posixpath.dirname(page))
    path = posixpath.normpath(posixpath.join(folder, target))
    inside = path.startswith("docs/") and not path.endswith(".py")
    return None if inside or path.startswith("..") or not (_ROOT / path).exists() else path


def _page_uri(source: str) -> str:
    return f"sources/{source.removesuffix('.md')}.md"


def _page(path: Path) -> str:
    name = path.relative_to(_ROOT).as_posix()
    if path.is_dir():
        listed = sorted(one.name for one in path.iterdir() if one.suffix in _LANGUAGES)
        return f"# {name}\n\nIn the repository, with\n\n" + "\n".join(f"- `{o}`" for o in listed)
    text = path.read_text()
    if path.suffix == ".md":
        return text
    language = _LANGUAGES.get(path.suffix, "text")
    return f"# {path.name}\n\n`{name}`\n\n````{language}\n{text.rstrip()}\n````\n"
