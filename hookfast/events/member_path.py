"""Paths to a member of a JSON value, as filters write them: `customer.address.city`. Pure."""

from __future__ import annotations

import re
from typing import Final

_SPECIAL: Final = (".", "[", "$", "\\")
_ANY_INDEX: Final = re.compile(r"\.\$(?=\.|$)")
_NO_INDEX: Final = (
    "a path has no indexes, because a condition on an array holds if one of its elements matches: "
    r"write 'items.sku' (and a bracket or `$` in a name as `\[` and `\$`)"
)


def parse_path(text: str) -> list[str]:
    """Return the names of a path, which dots separate. A backslash takes the special meaning from a
    dot, a bracket, `$` or a backslash; `$$` at the start is a `$` of the first name. Raises
    ValueError, whose message says what to write instead."""
    if _ANY_INDEX.search(text):
        raise ValueError(_NO_INDEX)
    names, name = [], ""
    characters = iter(text.removeprefix("$") if text.startswith("$$") else text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in _SPECIAL:
                raise ValueError(
                    r"in a path, write a backslash as `\\`, and a dot in a name as `\.`"
                )
            name += escaped
        elif character == ".":
            names.append(name)
            name = ""
        elif character == "[":
            raise ValueError(_NO_INDEX)
        else:
            name += character
    names.append(name)
    if not all(names):
        raise ValueError(r"a path has no empty parts; write a dot in a name as `\.`")
    return names
