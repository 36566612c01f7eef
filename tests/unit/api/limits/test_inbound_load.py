"""The limit of inbound requests in progress."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from api.limits.inbound_load import InboundLoad
from hookfast.errors import Unavailable


def test_requests_over_the_limit_are_rejected_with_retry_after() -> None:
    load = InboundLoad(4)
    with ExitStack() as stack:
        for source in ("a", "a", "b", "b"):
            stack.enter_context(load.enter(source))
        with pytest.raises(Unavailable) as refused, load.enter("c"):
            pass
        assert (refused.value.code, refused.value.retry_after) == ("overloaded", 1)
    with load.enter("c"):
        pass


def test_one_source_may_use_half_of_the_limit() -> None:
    load = InboundLoad(4)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(load.enter("a"))
        with pytest.raises(Unavailable), load.enter("a"):
            pass
        with load.enter("b"):
            pass
    for _ in range(10):  # requests that ended, with success or not, no longer count
        with pytest.raises(ZeroDivisionError), load.enter("a"):
            _ = 1 / 0
