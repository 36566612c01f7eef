"""The fenced blocks of the documentation, with the comment on the line before each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^>]*?) -->\n)?^(?P<fence>`{3,})(?P<language>[\w-]*)[^\n]*\n"
    r"(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `mark` is the comment on the line before it, which says how it is tested."""

    page: str
    line: int
    language: str
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(
            page=page.relative_to(ROOT).as_posix(),
            line=text.count("\n", 0, found.start("fence")) + 1,
            language=found["language"],
            mark=found["mark"] or "",
            text=found["text"],
        )
        for found in _BLOCK.finditer(text)
    ]


def all_blocks(*languages: str) -> list[Block]:
    """Return every block of the documentation, or every block in these languages."""
    found = [block for page in PAGES for block in blocks(page)]
    return [block for block in found if not languages or block.language in languages]
