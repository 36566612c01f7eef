"""Event types of what came in: whatever a provider calls it, a valid three-part name.

A word is lower-cased, every run of other characters than `a-z`, `0-9` and `_` becomes one `_`, and
`_` at either end goes away. A word that does not begin with a letter then gets `x_` in front, and
one that is longer than its share of the 128 characters is cut. So two names of a provider that
differ only in what is lost here become one event type; the original stays in the body.
"""

from __future__ import annotations

import re
from typing import Final

from hookfast.errors import InvalidInput
from hookfast.events.event_type import MAX_LENGTH, parse_event_type
from hookfast.events.operational import is_reserved

NO_VERB: Final = "received"
"""The verb of events that a provider names by a noun alone (a push)."""
NO_NOUN: Final = "event"
"""The noun of requests that do not say what they are about."""
MAX_NAMESPACE = 30
_MAX_WORD = (MAX_LENGTH - MAX_NAMESPACE - 2) // 2

_OTHERS = re.compile(r"[^a-z0-9_]+")
_BETWEEN = re.compile(r"[./:]+")


def event_name(namespace: str, noun: object, verb: object = None) -> str:
    """`<namespace>.<noun>.<verb>`, with NO_NOUN and NO_VERB for what is no text or leaves no word.
    `namespace` must be a valid part of at most MAX_NAMESPACE characters."""
    return f"{namespace}.{_word(noun, NO_NOUN)}.{_word(verb, NO_VERB)}"


def folded(namespace: str, name: object) -> str:
    """A name with any number of words between `.`, `/` or `:`. The last is the verb and all before
    it the noun, joined by `_`: `customer.subscription.trial_will_end` under `stripe` is
    `stripe.customer_subscription.trial_will_end`, and `ping` is `stripe.ping.received`."""
    words = [word for word in _BETWEEN.split(name) if word] if isinstance(name, str) else []
    if len(words) < 2:
        return event_name(namespace, *words) if words else event_name(namespace, None)
    return event_name(namespace, "_".join(words[:-1]), words[-1])


def kept_or_folded(namespace: str, name: object) -> str:
    """A name that is an event type already stays as it is, unless it is one of the operational
    events, which only Hookfast itself may emit; others are folded."""
    if isinstance(name, str) and not is_reserved(name) and is_event_type(name):
        return name
    return folded(namespace, name)


def is_event_type(name: str) -> bool:
    """Whether this is a valid event type."""
    try:
        parse_event_type(name)
    except InvalidInput:
        return False
    return True


def _word(value: object, instead: str) -> str:
    if not isinstance(value, str):
        return instead
    # cut before the work: a header or member may be as long as the whole request
    word = _OTHERS.sub("_", value[: 4 * _MAX_WORD].lower()).strip("_")
    if not word:
        return instead
    if not word[0].isalpha():
        word = f"x_{word}"
    return word[:_MAX_WORD]
