"""The columns and cells of tables. A table's rows are cards on a phone. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

_TAG = re.compile(r"<(tr|th|td)\b([^>]*)>")
_COLSPAN = re.compile(r'\bcolspan="(\d+)"')


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as templates write it: `Endpoint`; `#Attempts` has numbers; `!Status` is
    beside the title of a card; `~Limits` and `~#Bytes` are left out where the page has room for
    neither all columns nor cards; an empty name is the column of actions."""

    name: str
    is_number: bool = False
    is_lead: bool = False
    is_spare: bool = False

    @classmethod
    def parse(cls, text: str) -> Column:
        """Return the column that a template wrote."""
        name = text.lstrip("~#!")
        marks = text[: len(text) - len(name)]
        return cls(name, is_number="#" in marks, is_lead="!" in marks, is_spare="~" in marks)


def columns(texts: Sequence[str]) -> list[Column]:
    """Return the columns that a template wrote, the first one first."""
    return [Column.parse(text) for text in texts]


def cells(rows: str, table: Sequence[Column], *, ticks: bool = False) -> Markup:
    """Return the HTML of rows with what a card needs in each cell: its role, because a cell that is
    laid out as a block is none in every browser, and the name of its column in `data-label`, which
    the style sheet shows. `ticks`: a column of checkboxes comes first."""
    index = 0

    def complete(tag: re.Match[str]) -> str:
        nonlocal index
        name, attributes = tag.groups()
        if name == "tr":
            index = -1 if ticks else 0
            return f'<tr role="row"{attributes}>'
        if name == "th":
            index += 1
            return f'<th role="rowheader"{attributes}>'
        span = _COLSPAN.search(attributes)
        added = "" if span or not 0 <= index < len(table) else _of_card(table[index])
        index += int(span[1]) if span else 1
        return f'<td role="cell"{added}{attributes}>'

    return Markup(_TAG.sub(complete, rows))  # noqa: S704 - escaped by the template it comes from


def _of_card(column: Column) -> str:
    if column.is_lead:
        return " data-lead"
    if not column.name:
        return " data-actions"
    spare = " data-spare" if column.is_spare else ""
    return f' data-label="{escape(column.name)}"{spare}'
