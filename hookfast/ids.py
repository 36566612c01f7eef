"""Ids: a prefix for the kind of resource, and a UUIDv7 (RFC 9562, section 5.7) in hex.

The id starts with the row's creation time, so ids sort by time: one primary key serves lookup,
newest-first lists and `since`/`until` filters.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Literal

from hookfast.clock import utc_now

Prefix = Literal[
    "tnt", "key", "ep", "sub", "evt", "dlv", "btc", "att", "ntc", "job", "aud", "src", "inb", "ret"
]

_RANDOM_BITS = 62
_VERSION_7 = 0x7 << 76
_VARIANT_10 = 0b10 << 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(r"[a-z]+_([0-9a-f]{12})[0-9a-f]{20}$")


def new_id(prefix: Prefix, at: datetime | None = None, *, random: Random | None = None) -> str:
    """Return a new id whose time part is `at` (default: now): the prefix, `_` and 32 hex digits,
    e.g. `dlv_0193…`. A workflow passes `random`, because a replay must produce the same id."""
    # as secrets.randbits does, without the calls in between: 1.9 instead of 3.0 µs
    bits = _system_bits() if random is None else random.getrandbits(_RANDOM_BITS)
    return f"{prefix}_{_uuid7_hex(at or utc_now(), bits)}"


def time_of(id_: str) -> datetime | None:
    """Return the time part of an id, to the millisecond; None if the text is not an id."""
    match = _TIME.match(id_)
    return None if match is None else _EPOCH + timedelta(milliseconds=int(match[1], 16))


def first_id_at(prefix: Prefix, at: datetime) -> str:
    """Return the smallest id that a row created at `at` or later can have. It turns a time filter
    into a range over the primary key."""
    return f"{prefix}_{_uuid7_hex(at, 0)}"


def id_pattern(prefix: Prefix) -> str:
    """Return the regular expression of ids with this prefix, for path and query parameters."""
    return rf"^{prefix}_[0-9a-f]{{32}}$"


def is_id(prefix: Prefix, text: str) -> bool:
    """Whether the text has the form of an id with this prefix; the row need not exist."""
    return re.fullmatch(id_pattern(prefix), text) is not None


def _system_bits() -> int:
    return int.from_bytes(os.urandom(8)) >> (64 - _RANDOM_BITS)


def _uuid7_hex(at: datetime, random: int) -> str:
    # RFC 9562 method 3: the 12 bits after the version hold the fraction of the millisecond, so that
    # ids created within one millisecond still sort by time.
    since_epoch = at - _EPOCH
    micros = (
        since_epoch.days * 86_400 + since_epoch.seconds
    ) * 1_000_000 + since_epoch.microseconds
    millis, rest = divmod(max(micros, 0), 1000)
    value = (millis << 80) | _VERSION_7 | ((rest * 4096 // 1000) << 64) | _VARIANT_10 | random
    return f"{value:032x}"
