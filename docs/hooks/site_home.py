"""MkDocs hook: gives the home page the whole width, and names what the theme leaves without a name
for screen readers."""

from __future__ import annotations

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_SEARCH = 'data-md-component="search" role="dialog"'
_EMPTY_HEADING = re.compile(r"<th( style=\"[^\"]*\")?></th>")
_SECTION_WITH_PAGE = re.compile(
    r'md-ellipsis">\s*([^<]+?)\s*</span>\s*</a>\s*<label[^>]*\bid="(__nav_[\d_]+_label)"'
)
"""A section that has a page: its title is in the link, and the label has only an icon."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Hide the lists of pages and of headings on the home page. As front matter this would be shown
    on a forge."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    return markdown


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name the search and the sections of the navigation, and make cells of empty headings."""
    output = output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')
    output = _EMPTY_HEADING.sub(r"<td\1></td>", output)
    for title, label in _SECTION_WITH_PAGE.findall(output):
        output = output.replace(f'aria-labelledby="{label}"', f'aria-label="{title}"')
    return output
