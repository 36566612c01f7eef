"""Checks that PostgreSQL keeps acknowledged events and has connections for every process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.storage.figures import server_facts

_OLDEST = 140_000  # the oldest version with the partitions that ADR 12 needs


def check_postgresql(facts: Mapping[str, str], *, workers_seen: int) -> Iterator[Finding]:
    """Check the server's settings, and its connections for every process."""
    problems = list(_problems(facts))
    yield from problems
    if not problems:
        yield ok("database.settings", "Commits are durable, writes allowed, isolation as needed.")
    reserved = sum(
        int(facts.get(name, 0))
        for name in ("superuser_reserved_connections", "reserved_connections")
    )
    most = int(facts["max_connections"])
    room = (most - reserved) // server_facts.CONNECTIONS_PER_PROCESS
    # beside the workers there is at least one API process
    needed = max(2, workers_seen + 1)
    saw = (
        f"max_connections {most} is enough for {room} processes of up to "
        f"{server_facts.CONNECTIONS_PER_PROCESS} connections; "
        f"{workers_seen} workers were seen, beside the API processes."
    )
    if room < needed:
        yield warn(
            "database.connections",
            saw,
            todo=f"Raise max_connections to {needed * server_facts.CONNECTIONS_PER_PROCESS + 10} "
            "or more, or run fewer processes.",
        )
    else:
        yield ok("database.connections", saw)


def _problems(facts: Mapping[str, str]) -> Iterator[Finding]:
    check = "database.settings"
    if int(facts["server_version_num"]) < _OLDEST:
        yield warn(
            check,
            f"PostgreSQL {facts['server_version']} is older than Hookfast supports.",
            todo="Upgrade to a version that PostgreSQL still supports.",
        )
    if facts["transaction_read_only"] == "on":
        yield fail(
            check,
            "Transactions are read-only: the server is a standby, or it is the role's default.",
            todo="Name the primary in HOOKFAST_DATABASE_URL, or "
            "`ALTER ROLE … RESET default_transaction_read_only`.",
        )
    for name in ("fsync", "full_page_writes"):
        if facts[name] == "off":
            yield fail(
                check,
                f"{name} is off: a power cut can destroy the database.",
                todo=f"`ALTER SYSTEM RESET {name}`, then reload.",
            )
    if facts["synchronous_commit"] == "off":
        yield warn(
            check,
            "synchronous_commit is off: a crash of the server can lose events that were "
            "acknowledged with 202 just before.",
            todo="Set it to on, local or remote_write for Hookfast's role: "
            "`ALTER ROLE … SET synchronous_commit = on`.",
        )
    if facts["default_transaction_isolation"] != "read committed":
        yield warn(
            check,
            f"Transactions are {facts['default_transaction_isolation']} by default; Hookfast "
            "expects read committed, and will get serialisation errors.",
            todo="`ALTER ROLE … SET default_transaction_isolation = 'read committed'`.",
        )
    if facts["superuser"] == "true":
        yield warn(
            check,
            "Hookfast's role is a superuser.",
            todo="Give it a role that owns only Hookfast's database.",
        )
