"""docs/log-schema.json has every kind of log line, and docs/telemetry.md lists what it says."""

from __future__ import annotations

from pathlib import Path

from hookfast.logs.kind import Kind
from tests.support.log_lines import ALWAYS, SCHEMA

FIELDS = SCHEMA["properties"]


def _table(*head: str, rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        "|" + "|".join(cell if cell == "---" else f" {cell} " for cell in line) + "|"
        for line in lines
    )


def test_documentation_lists_every_kind_and_field() -> None:
    kinds = _table(
        *("kind", "meaning", "fields it always has"),
        rows=[
            (f"`{kind}`", one["description"], ", ".join(f"`{name}`" for name in ALWAYS[kind]))
            for kind, one in zip(ALWAYS, SCHEMA["allOf"], strict=True)
        ],
    )
    fields = _table(
        *("field", "type", "meaning"),
        rows=[(f"`{name}`", one["type"], one["description"]) for name, one in FIELDS.items()],
    )
    page = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text()
    assert kinds in page, f"put this into docs/telemetry.md:\n{kinds}"
    assert fields in page, f"put this into docs/telemetry.md:\n{fields}"


def test_every_kind_has_described_fields() -> None:
    kinds = [kind.value for kind in Kind]
    assert FIELDS["kind"]["enum"] == kinds
    assert set(ALWAYS) == set(kinds)
    for names in ALWAYS.values():
        assert set(names) <= FIELDS.keys()
