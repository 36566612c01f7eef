"""Numbers with their nouns and verbs, as English has them. Pure."""

from __future__ import annotations


def pluralize(number: int, noun: str) -> str:
    """Return the number with its noun: `1 delivery`, `1,234 deliveries`, `2 processes`."""
    if noun.endswith("y"):
        plural = f"{noun[:-1]}ies"
    else:
        plural = f"{noun}{'es' if noun.endswith('s') else 's'}"
    return f"{number:,} {noun if number == 1 else plural}"


def are(number: int) -> str:
    """Return the verb of so many things: `is` or `are`."""
    return "is" if number == 1 else "are"
