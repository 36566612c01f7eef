"""The up file, from which other commands learn the address of the running Temporal."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hookfast.settings import up_file
from hookfast.settings.up_file import UpFile
from hookfast.supervisor import home_lock

HERE = UpFile(temporal_address="127.0.0.1:7301", temporal_namespace="hooks")


def test_up_file_exists_only_while_up_runs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert up_file.read(home) is None
    with home_lock.locked(home):
        assert up_file.read(home) is None
        with up_file.written(home, HERE):
            assert up_file.read(home) == HERE
        assert up_file.read(home) is None


def test_up_file_of_a_killed_up_is_ignored(tmp_path: Path) -> None:
    with up_file.written(tmp_path, HERE):
        assert up_file.read(tmp_path) is None, "nobody holds the home"
        (tmp_path / up_file.LOCK).touch()
        assert up_file.read(tmp_path) is None
        with home_lock.locked(tmp_path), up_file.written(tmp_path, None):
            assert up_file.read(tmp_path) is None, "the next one uses a Temporal elsewhere"


@pytest.mark.parametrize("note", ["", "7233", "[]", '{"temporal_address": "a"}', "\udcff"])
def test_invalid_up_file_is_ignored(tmp_path: Path, note: str) -> None:
    with home_lock.locked(tmp_path), up_file.written(tmp_path, HERE):
        (tmp_path / "up.json").write_bytes(note.encode(errors="surrogateescape"))
        assert up_file.read(tmp_path) is None


def test_up_gets_its_lock_while_others_read_the_file(tmp_path: Path) -> None:
    with home_lock.locked(tmp_path):
        pass
    looking = threading.Event()

    def look() -> None:
        while not looking.is_set():
            up_file.read(tmp_path)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for _ in range(5):
            with home_lock.locked(tmp_path), up_file.written(tmp_path, HERE):
                assert up_file.read(tmp_path) == HERE
    finally:
        looking.set()
        reader.join()
