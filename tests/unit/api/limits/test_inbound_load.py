"""How many inbound requests are in hand at once."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from api.limits.inbound_load import InboundLoad
from hookfast.errors import Unavailable


def test_beyond_the_limit_callers_are_told_to_come_again() -> None:
    load = InboundLoad(4)
    with ExitStack() as stack:
        for source in ("a", "a", "b", "b"):
            stack.enter_context(load.enter(source))
        with pytest.raises(Unavailable) as refused, load.enter("c"):
            pass
        assert (refused.value.code, refused.value.retry_after) == ("overloaded", 1)
    with load.enter("c"):
        pass


def test_one_source_has_half_of_the_places() -> None:
    load = InboundLoad(4)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(load.enter("a"))
        with pytest.raises(Unavailable), load.enter("a"):
            pass
        with load.enter("b"):
            pass
    for _ in range(10):  # what ended, well or not, is in hand no more
        with pytest.raises(ZeroDivisionError), load.enter("a"):
            _ = 1 / 0
