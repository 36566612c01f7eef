"""docs/telemetry.md and docs/log-schema.json describe every kind and field of log lines."""

from __future__ import annotations

import json
from pathlib import Path

from hookfast.logs.catalogue import FIELDS, KINDS, Kind, schema

DOCS = Path(__file__).parents[3] / "docs"


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
            (f"`{kind.value}`", line.meaning, ", ".join(f"`{name}`" for name in line.fields))
            for kind, line in KINDS.items()
        ],
    )
    fields = _table(
        *("field", "type", "meaning"),
        rows=[(f"`{name}`", field.type, field.meaning) for name, field in FIELDS.items()],
    )
    page = (DOCS / "telemetry.md").read_text()
    assert kinds in page, f"put this into docs/telemetry.md:\n{kinds}"
    assert fields in page, f"put this into docs/telemetry.md:\n{fields}"


def test_schema_file_is_the_schema() -> None:
    written = json.loads((DOCS / "log-schema.json").read_text())
    assert written == schema(), "run `make log-schema`"


def test_every_kind_has_described_fields() -> None:
    assert set(KINDS) == set(Kind)
    for line in KINDS.values():
        assert set(line.fields) <= FIELDS.keys()
