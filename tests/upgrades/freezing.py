"""Writes the tables of a release into its first migration, which follows the table classes until
then.

    python -m tests.upgrades.freezing       # part of `make freeze`, before the tag 0.1.0
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.autogenerate.api import AutogenContext
from alembic.runtime.migration import MigrationContext
from sqlalchemy import PrimaryKeyConstraint, create_engine
from sqlmodel import AutoString

from hookfast.storage.database.column_types import SettingsJson, UtcDateTime
from hookfast.storage.tables import Record

FIRST = Path(__file__).parents[2] / "hookfast/storage/migrations/versions/0001_schema.py"
_FOLLOWS = re.compile(
    r"(?<=def _create_tables\(\) -> None:\n)    for table in Record.+?(?=\n\n\n)", re.S
)
_INTRODUCTION = re.compile(r"(?<=\n\n)Until the release is tagged, .+?(?=\n\"\"\")", re.S)
_FROZEN = """\
Written out, not derived from the table classes, because a released migration stays as it is while
the classes change."""
_IMPORTS = (
    "from hookfast.storage.tables import Record\n",
    "from sqlalchemy.schema import CreateIndex, CreateTable\n",
)


def frozen(source: str) -> str:
    """Return the migration with the tables as they are now. Raises ValueError if `source` no longer
    follows the table classes."""
    source, count = _FOLLOWS.subn(lambda _: _operations(), source)
    if count != 1:
        raise ValueError("the migration is frozen already")
    source = _INTRODUCTION.sub(_FROZEN, source, count=1)
    for line in _IMPORTS:
        source = source.replace(line, "")
    return source


def _operations() -> str:
    """Return the calls of Alembic that create all tables and indexes."""
    with create_engine("sqlite://").connect() as connection:
        context = MigrationContext.configure(connection)
        found = produce_migrations(context, Record.metadata).upgrade_ops
        assert found is not None
        text = render_python_code(found, render_item=_rendered, migration_context=context)
    return "\n".join(line for line in text.splitlines() if "# ###" not in line)


def _rendered(kind: str, item: object, context: AutogenContext) -> str | Literal[False]:
    """Render what Alembic does not know, or knows only in SQLite's form; False for the rest."""
    if isinstance(item, PrimaryKeyConstraint):
        if included := item.dialect_options["postgresql"]["include"]:
            names = ", ".join(repr(column.name) for column in item.columns)
            return f"sa.PrimaryKeyConstraint({names}, postgresql_include={included!r})"
        return False
    if kind == "server_default" and str(getattr(item, "arg", "")) == "false":
        return "sa.false()"
    known = {AutoString: "sa.String()", SettingsJson: "sa.JSON()", UtcDateTime: "UtcDateTime()"}
    return known.get(type(item), False)


if __name__ == "__main__":
    FIRST.write_text(frozen(FIRST.read_text()))
    for command in (["format"], ["check", "--fix"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--quiet", FIRST], check=True)
