"""The key file: created once and completely, and readable by its owner only."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hookfast.errors import Misconfigured
from hookfast.signing.keyring import encode_key, parse_keys
from hookfast.storage.keys.key_file import load_or_create

KEY = b"k" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "encryption.key"


def test_the_key_is_created_once_and_read_afterwards(path: Path) -> None:
    key = load_or_create(path)
    assert len(key) == 32
    assert load_or_create(path) == key


def test_the_file_is_readable_by_its_owner_only_and_no_other_file_is_left(path: Path) -> None:
    load_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_the_text_of_the_file_also_works_as_the_setting(path: Path) -> None:
    key = load_or_create(path)
    assert parse_keys(path.read_text()) == (key,)


def test_each_file_gets_its_own_key(tmp_path: Path) -> None:
    assert load_or_create(tmp_path / "one") != load_or_create(tmp_path / "two")


def test_threads_that_start_at_once_get_one_key(path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        keys = set(threads.map(load_or_create, [path] * 64))
    assert keys == {load_or_create(path)}
    assert list(path.parent.iterdir()) == [path]


def test_processes_that_start_at_once_get_one_key(path: Path) -> None:
    program = (
        "import sys, pathlib; from hookfast.storage.keys.key_file import load_or_create;"
        "print(load_or_create(pathlib.Path(sys.argv[1])).hex())"
    )
    command = [sys.executable, "-c", program, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    printed = {process.communicate()[0].strip() for process in running}
    assert printed == {load_or_create(path).hex()}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620])
def test_a_file_that_others_can_access_is_rejected_with_the_command_to_fix_it(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "encryption.key"
    path.write_text(encode_key(KEY))
    path.chmod(mode)
    with pytest.raises(Misconfigured, match=f"run: chmod 600 {path}"):
        load_or_create(path)
    path.chmod(0o600)
    assert load_or_create(path) == KEY


@pytest.mark.parametrize("content", [b"", b"c2hvcnQ=\n", b"not a key", b"\xff\xfe", bytes(5000)])
def test_a_damaged_file_is_rejected_and_not_changed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "encryption.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(Misconfigured, match="restore the file from a backup"):
        load_or_create(path)
    assert path.read_bytes() == content


def test_a_folder_in_place_of_the_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="not a regular file"):
        load_or_create(tmp_path)


def test_a_fifo_in_place_of_the_file_does_not_block_the_start(tmp_path: Path) -> None:
    path = tmp_path / "encryption.key"
    os.mkfifo(path, 0o600)
    with pytest.raises(Misconfigured, match="not a regular file"):
        load_or_create(path)


def test_a_folder_that_cannot_be_created_is_reported_with_the_setting_to_use(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="HOOKFAST_ENCRYPTION_KEYS"):
        load_or_create(tmp_path / "file" / "encryption.key")
