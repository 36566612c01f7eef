"""Columns that read a body only if it is small."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Integer, case, func, literal_column

from hookfast.byte_budget import SMALL_BYTES


def small_body(column: ColumnElement[bytes]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Return the columns `size`, the length of a body in bytes, and `body`, which is NULL if that
    is more than 16 KiB. Neither database reads a large body for this."""
    size = func.length(column)
    is_small = size <= literal_column(str(SMALL_BYTES), Integer)
    return size.label("size"), case((is_small, column)).label("body")
