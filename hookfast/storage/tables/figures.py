"""The tables of figures (`hookfast.deliveries.figures`, ADR 54)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Index, Integer, PrimaryKeyConstraint, SmallInteger
from sqlmodel import Field

from hookfast.storage.database.column_types import ByteOrderText
from hookfast.storage.tables.record import Record, partial_index

_NUMBER: Any = BigInteger
_ID: Any = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts only INTEGER keys up


class FigureEntry(Record, table=True):
    """A number that a transaction has counted, and that is not added to the other tables yet.
    The columns are those of `hookfast.deliveries.figures.Key`."""

    __tablename__ = "figure_entries"
    # an id is never given twice: `hookfast doctor` sees by it whether an entry stays
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: int | None = Field(default=None, primary_key=True, sa_type=_ID)
    gauge: bool
    at: int
    tenant_id: str
    endpoint_id: str
    event_type: str
    kind: str
    bucket: int = Field(sa_type=SmallInteger)
    number: int = Field(sa_type=_NUMBER)


class Figure(Record, table=True):
    """A number of a minute (`hookfast.storage.counting`). `scope` is an endpoint's or a tenant's
    id, or `all`; with `hours/` before it, the numbers are of a whole hour, or of a day if it is
    old; with `/types` after it, they are of one event type too, and have no durations."""

    __tablename__ = "figures"
    __table_args__ = (
        # With its number, so that a chart reads neighbours in the index: in the table, the rows of
        # a scope are far apart, between those that all others wrote in the same minute.
        PrimaryKeyConstraint(
            *("scope", "at", "event_type", "kind", "bucket"), postgresql_include=["number"]
        ),
        {"sqlite_with_rowid": False},
    )

    scope: str = Field(sa_type=ByteOrderText)
    at: int
    event_type: str = Field(sa_type=ByteOrderText)
    kind: str = Field(sa_type=ByteOrderText)
    bucket: int = Field(sa_type=SmallInteger)
    number: int = Field(sa_type=_NUMBER)


class Gauge(Record, table=True):
    """How many deliveries of an endpoint wait now, or are kept as dead letters."""

    __tablename__ = "gauges"
    __table_args__ = (
        Index("ix_gauges_tenant", "tenant_id"),
        {"sqlite_with_rowid": False},
    )

    endpoint_id: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    event_type: str = Field(primary_key=True)
    at: int = Field(primary_key=True)
    tenant_id: str
    number: int = Field(sa_type=_NUMBER)


class GaugeTotal(Record, table=True):
    """The sum of the gauges of a kind, of a tenant or of all: one row to read, however many
    endpoints, event types and hours there are. `scope` is a tenant's id, or `all`. With a name
    after it (`all/event_type`, `all/endpoint_id`, `all/at`), it is the sum of the dead letters with
    a value of this column, which is in `kind`."""

    __tablename__ = "gauge_totals"
    __table_args__ = (
        # the tenants with the most deliveries that are held or retried
        partial_index("ix_gauge_totals_late", "number", where="kind IN ('held', 'retrying')"),
        {"sqlite_with_rowid": False},
    )

    scope: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    number: int = Field(sa_type=_NUMBER)
