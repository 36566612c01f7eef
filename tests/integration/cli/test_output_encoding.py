"""Output whose encoding is not UTF-8: characters that it lacks do not fail a command."""

from __future__ import annotations

import pytest

from tests.integration.cli.conftest import Run

pytestmark = pytest.mark.anyio

_NAME = "Ünï 日本 🎉"


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-15", "utf-8"])
async def test_json_has_the_same_value_in_every_encoding(hookfast: Run, encoding: str) -> None:
    # the test reads the pipe as UTF-8, in which ASCII is the same
    env = {"PYTHONIOENCODING": encoding}
    await hookfast("tenants", "create", _NAME.removeprefix("Ünï ") if "8859" in encoding else _NAME)
    listed = await hookfast("tenants", "list", "--json", env=env)
    assert listed.code == 0, listed.err
    [tenant] = listed.json["data"]
    assert tenant["name"] in _NAME


async def test_tables_and_notes_are_written_in_every_encoding(hookfast: Run) -> None:
    await hookfast("tenants", "create", _NAME)
    listed = await hookfast("tenants", "list", env={"PYTHONIOENCODING": "ascii"})
    assert listed.code == 0, listed.err
    assert "\\u00dcn\\u00ef \\u65e5\\u672c \\ud83c\\udf89" in listed.out
    settings = await hookfast("config", env={"PYTHONIOENCODING": "ascii"})
    assert settings.code == 0, settings.err


@pytest.mark.slow
async def test_doctor_writes_to_every_encoding(hookfast: Run) -> None:
    ended = await hookfast("doctor", env={"PYTHONIOENCODING": "ascii"})
    assert "\\u2192 " in ended.out  # the arrow before the advice
    assert "Traceback" not in ended.err
