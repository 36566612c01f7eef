"""The outbox table: its name, and the statements that create and drop it.

Needs PostgreSQL 13 or later. Besides `emit_in`, any program that can write SQL may insert rows:
only `type` and `data` have no default.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_TABLE = "hookfast_outbox"
CHANNEL = "hookfast_outbox"
"""The channel on which the table's trigger notifies relays; one for all tables of a database."""

MAX_DATA_BYTES = 1_500_000
"""The largest event that Hookfast can be set to accept (`HOOKFAST_MAX_EVENT_BYTES`); its default is
256 KiB."""

_LONGEST_TABLE = 50  # names of indexes add up to 9 characters, and PostgreSQL cuts names after 63
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of an outbox table. `str()` of it is SQL: quoted, with the schema if it has one."""

    table: str
    schema: str | None = None

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parse `table` or `schema.table`. The case counts, because the names are quoted. Raises
        ValueError."""
        schema, dot, table = text.rpartition(".")
        parts = (schema, table) if dot else (table,)
        if (
            not all(_IDENTIFIER.fullmatch(part) for part in parts)
            or len(table) > _LONGEST_TABLE
            or len(schema) > 63
        ):
            raise ValueError(
                f"{text!r} is not the name of an outbox table: write `table` or `schema.table`, in "
                f"letters, digits and '_' of ASCII, the table at most {_LONGEST_TABLE} characters"
            )
        return cls(table, schema or None)

    def __str__(self) -> str:
        return self.derived("")

    @property
    def text(self) -> str:
        """The name as `parse` takes it, for people."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    def derived(self, suffix: str) -> str:
        """Return the quoted name of something that belongs to the table, in the same schema."""
        name = f'"{self.table}{suffix}"'
        return name if self.schema is None else f'"{self.schema}".{name}'


def create_statements(table: str = DEFAULT_TABLE, *, notify: bool = True) -> list[str]:
    """Return the statements that create the table, for a migration.

    With `notify`, a trigger wakes the relay at each commit. PostgreSQL lets transactions that
    notify commit one after the other; where thousands commit each second, create the table without:
    then the relay notices rows when it next looks. Raises ValueError for an invalid name.
    """
    name = TableName.parse(table)
    waiting = "sent_at IS NULL AND rejected_at IS NULL"
    statements = [
        f"""\
CREATE TABLE {name} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key uuid NOT NULL DEFAULT gen_random_uuid(),
  type text NOT NULL,
  data json NOT NULL,
  tenant_id text,
  deliver_at timestamptz,
  ordering_key text,
  traceparent text,
  created_at timestamptz NOT NULL DEFAULT now(),
  sent_at timestamptz,
  event_id text,
  rejected_at timestamptz,
  error text
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000)""",
        f'CREATE INDEX "{name.table}_waiting" ON {name} (id) WHERE {waiting}',
        f'CREATE INDEX "{name.table}_sent" ON {name} (sent_at) WHERE sent_at IS NOT NULL',
        f'CREATE INDEX "{name.table}_rejected" ON {name} (id) WHERE rejected_at IS NOT NULL',
    ]
    if notify:
        statements += [
            f"""\
CREATE FUNCTION {name.derived("_notify")}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('{CHANNEL}', '');
  RETURN NULL;
END
$$""",
            f"""\
CREATE TRIGGER "{name.table}_notify" AFTER INSERT ON {name}
FOR EACH STATEMENT EXECUTE FUNCTION {name.derived("_notify")}()""",
        ]
    return statements


def drop_statements(table: str = DEFAULT_TABLE) -> list[str]:
    """Return the statements that drop the table, with the rows that were not sent. Raises
    ValueError for an invalid name."""
    name = TableName.parse(table)
    return [f"DROP TABLE {name}", f"DROP FUNCTION IF EXISTS {name.derived('_notify')}()"]


def create_sql(table: str = DEFAULT_TABLE, *, notify: bool = True) -> str:
    """Return `create_statements` as one script, such as for `psql` or Django's `RunSQL`."""
    return _script(create_statements(table, notify=notify))


def drop_sql(table: str = DEFAULT_TABLE) -> str:
    """Return `drop_statements` as one script."""
    return _script(drop_statements(table))


def _script(statements: list[str]) -> str:
    return "".join(f"{statement};\n" for statement in statements)
