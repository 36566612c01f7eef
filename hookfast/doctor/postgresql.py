"""Checks that PostgreSQL keeps acknowledged events and has connections for every process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hookfast.doctor.finding import Finding, fail, ok, warn
from hookfast.plural import are, pluralize
from hookfast.storage.figures import server_facts
from hookfast.storage.figures.server_facts import Connections

_NAMED = 5


def check_postgresql(
    facts: Mapping[str, str], connections: Connections, *, workers_seen: int
) -> Iterator[Finding]:
    """Check the server's settings, and its connections for every process."""
    problems = list(_problems(facts))
    yield from problems
    if not problems:
        yield ok("database.settings", "Commits are durable, isolation as needed.")
    yield _check_connections(facts, connections, workers_seen=workers_seen)


def _check_connections(
    facts: Mapping[str, str], connections: Connections, *, workers_seen: int
) -> Finding:
    """Check that beside the connections of others there is room for every process of ours."""
    check, each = "database.connections", server_facts.CONNECTIONS_PER_PROCESS
    reserved = sum(
        int(facts.get(name, 0))
        for name in ("superuser_reserved_connections", "reserved_connections")
    )
    most = int(facts["max_connections"])
    others = sum(connections.others.values())
    room = most - reserved - others
    saw = f"max_connections is {most}, {reserved} of them reserved. Others use {others} now"
    if connections.others:
        ordered = sorted(connections.others.items(), key=lambda one: -one[1])
        saw += f" ({', '.join(f'{name} {count}' for name, count in ordered[:_NAMED])})"
    limits = [
        (f"The {what} has a CONNECTION LIMIT of {limit}.", limit)
        for what, limit in (
            ("database", connections.database_limit),
            ("role", connections.role_limit),
        )
        if limit is not None and limit < room
    ]
    room = min([room, *(limit for _, limit in limits)])
    fits = max(0, room // each)
    # beside the workers there is at least one API process
    needed = max(2, workers_seen + 1, connections.processes)
    saw += "".join(f". {sentence[:-1]}" for sentence, _ in limits)
    saw += (
        f". That is room for {pluralize(fits, 'process')} of Hookfast, of up to {each} connections "
        f"each; {connections.processes} {are(connections.processes)} connected, and "
        f"{workers_seen} worker{' was' if workers_seen == 1 else 's were'} seen"
    )
    if fits >= needed:
        return ok(check, f"{saw}: {fits - connections.processes} more fit.")
    enough = -(-(reserved + others + needed * each) // 50) * 50
    return warn(
        check,
        f"{saw}.",
        todo=f"Raise max_connections to {enough} or more"
        + (", and the CONNECTION LIMIT" if limits else "")
        + ", or run fewer processes. Others may need more than now: a Temporal server opens up to "
        "120.",
    )


def _problems(facts: Mapping[str, str]) -> Iterator[Finding]:
    check = "database.settings"
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
