"""Convert a provider's event names into valid event types of three parts.

Each word is lower-cased, every run of characters other than `a-z`, `0-9` and `_` becomes one `_`,
and `_` at either end is removed. A word that does not start with a letter gets the prefix `x_`, and
one longer than its share of the 128 characters is cut. Provider names that differ only in the
removed characters become the same event type; the body keeps the original.
"""

from __future__ import annotations

import re
from typing import Final

from hookfast.events.event_type import MAX_LENGTH, is_event_type
from hookfast.events.operational import is_reserved

NO_VERB: Final = "received"
"""The verb for events that a provider names by a noun alone (a push)."""
NO_NOUN: Final = "event"
"""The noun for requests that name no event."""
MAX_NAMESPACE = 30
_MAX_WORD = (MAX_LENGTH - MAX_NAMESPACE - 2) // 2

_INVALID_CHARACTERS = re.compile(r"[^a-z0-9_]+")
_SEPARATORS = re.compile(r"[./:]+")


def event_name(namespace: str, noun: object, verb: object = None) -> str:
    """Return `<namespace>.<noun>.<verb>`; NO_NOUN and NO_VERB replace a value that is not text or
    has no valid character. `namespace` must be valid and at most MAX_NAMESPACE characters."""
    return f"{namespace}.{_word(noun, NO_NOUN)}.{_word(verb, NO_VERB)}"


def event_type_from(namespace: str, name: object) -> str:
    """Return the event type for a name of any number of words, separated by `.`, `/` or `:`.

    The last word is the verb; the others, joined by `_`, are the noun. Under `stripe`,
    `customer.subscription.trial_will_end` becomes `stripe.customer_subscription.trial_will_end`,
    and `ping` becomes `stripe.ping.received`.
    """
    words = [word for word in _SEPARATORS.split(name) if word] if isinstance(name, str) else []
    if len(words) < 2:
        return event_name(namespace, *words) if words else event_name(namespace, None)
    return event_name(namespace, "_".join(words[:-1]), words[-1])


def valid_event_type(namespace: str, name: object) -> str:
    """Return `name` unchanged when it is a valid event type, otherwise convert it. Operational
    events are converted as well, because only Hookfast itself may emit those types."""
    if isinstance(name, str) and not is_reserved(name) and is_event_type(name):
        return name
    return event_type_from(namespace, name)


def _word(value: object, default: str) -> str:
    if not isinstance(value, str):
        return default
    # cut first: a header or member may be as long as the whole request
    word = _INVALID_CHARACTERS.sub("_", value[: 4 * _MAX_WORD].lower()).strip("_")
    if not word:
        return default
    if not word[0].isalpha():
        word = f"x_{word}"
    return word[:_MAX_WORD]
