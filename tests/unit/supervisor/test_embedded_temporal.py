"""The command line and environment of the Temporal dev server that `up` starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookfast.supervisor.embedded_temporal import EmbeddedTemporal
from hookfast.supervisor.processes import Part


def _part(home: Path) -> Part:
    home.mkdir(exist_ok=True)
    server = EmbeddedTemporal(
        home=home,
        port=7233,
        ui_port=8233,
        namespace="default",
        log_level="info",
        binary="/usr/bin/temporal",
        search_attributes=("HookTenant=Keyword", "HookState=Keyword"),
    )
    with server.open_log() as log:
        return server.part(log, fds=())


@pytest.mark.parametrize(
    "value",
    [
        "history.hostLevelCacheMaxSize=1000",
        'history.cacheTTL="10s"',
        'history.cacheBackgroundEvict={"Enabled": true, "LoopInterval": "10s"}',
    ],
)
def test_dev_server_caches_a_bounded_number_of_workflows_for_seconds(
    tmp_path: Path, value: str
) -> None:
    part = _part(tmp_path)
    assert part.command[part.command.index(value) - 1] == "--dynamic-config-value"


@pytest.mark.parametrize(("given", "used"), [(None, "50"), ("200", "200")])
def test_dev_server_collects_garbage_as_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, used: str
) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    if given is not None:
        monkeypatch.setenv("GOGC", given)
    assert _part(tmp_path).environment["GOGC"] == used


def test_dev_server_gets_our_search_attributes_and_no_temporal_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_API_KEY", "of another server")
    part = _part(tmp_path)
    registered = [
        after
        for word, after in zip(part.command, part.command[1:], strict=False)
        if word == "--search-attribute"
    ]
    assert registered == ["HookTenant=Keyword", "HookState=Keyword"]
    assert "TEMPORAL_API_KEY" not in part.environment


@pytest.mark.parametrize("name", ["q?x", "p%41x", "a#b", "a b", "é"])
def test_database_of_the_dev_server_is_named_relative_to_the_home(
    tmp_path: Path, name: str
) -> None:
    """It puts the name into a URL as it is, where "?" and "%" would lead to another file."""
    part = _part(tmp_path / name)
    place = part.command.index("--db-filename")
    assert part.command[place + 1] == "temporal.db"
    assert part.folder == tmp_path / name
