"""The limit of open files: raised if need be, and the number of connections that fit in it."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from hookfast.connections.open_files import fitting


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _soft(limit: int) -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return hard


def test_soft_limit_is_raised_for_the_connections() -> None:
    _soft(1_024)
    with capture_logs() as lines:
        assert fitting(2_000) == 2_000
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 2_000 + 200
    assert lines == []


def test_limit_that_is_high_enough_is_left_alone() -> None:
    _soft(3_000)
    assert fitting(2_000) == 2_000
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 3_000


def test_fewer_connections_are_allowed_than_files_with_a_warning() -> None:
    hard = _soft(1_024)
    with capture_logs() as lines:
        allowed = fitting(hard + 1)
    assert allowed == hard - 256
    assert [(line["log_level"], line["limit"]) for line in lines] == [("warning", allowed)]
