"""A rollback keeps every running workflow: the previous version replays what this one writes, and
the reverse. docs/upgrading.md ("Going back") has the rule for changes that would break it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from bench.rollout.versions import (
    NoHistory,
    environment_of,
    histories_of,
    is_shallow,
    of_tags,
    previous_versions,
    unpacked,
)
from tests.replay import other_code
from tests.replay.message_schemas import unreadable
from tests.replay.shapes import HISTORIES

CHANGED = "a_changed_history"
SCRIPT = Path(__file__).with_name("other_code.py")

# Shapes that the previous version cannot replay, with the reason. For a tagged version nothing may
# be listed: then the change belongs into the release after (docs/upgrading.md).
NEW_SHAPES: dict[str, dict[str, str]] = {}

# What the previous version cannot read in messages, by its revision. Same rule.
NEW_IN_MESSAGES: dict[str, dict[str, str]] = {}


@lru_cache
def versions() -> list[str]:
    """The versions that a rollback may go to. Skips the test where git does not know them."""
    try:
        revisions = previous_versions()
        for revision in revisions:
            unpacked(revision)
    except NoHistory as error:
        # our workflow fetches the whole history; a part of it is a mistake there, and must be seen
        if os.environ.get("GITHUB_ACTIONS") and is_shallow():
            raise
        pytest.skip(str(error))
    return revisions


def run_on(revision: str, histories: Path) -> Any:
    """What the code of this version makes of the histories."""
    tree = unpacked(revision)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(histories)],
        env=os.environ | environment_of(tree),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # after the SDK's lines on failures


@lru_cache
def of_previous(revision: str) -> Any:
    """What the previous version makes of this version's histories, and of one that it cannot
    know."""
    with tempfile.TemporaryDirectory() as folder:
        for saved in HISTORIES.glob("*.json"):
            shutil.copy(saved, folder)
        (Path(folder) / f"{CHANGED}.json").write_text(changed_history())
        return run_on(revision, Path(folder))


def changed_history() -> str:
    """The history of a workflow whose code asks `workflow.patched` before its first timer."""
    saved = json.loads((HISTORIES / "delivered_after_two_retries.json").read_text())
    event = next(one for one in saved["events"] if "timerStartedEventAttributes" in one)
    del event["timerStartedEventAttributes"]
    event["eventType"] = "EVENT_TYPE_MARKER_RECORDED"
    event["markerRecordedEventAttributes"] = {"markerName": "core_patch"}
    return json.dumps(saved)


def test_the_previous_version_replays_the_histories_of_this_one() -> None:
    for revision in versions():
        found, known = of_previous(revision), NEW_SHAPES.get(revision, {})
        failures = found["failures"] | {one: "unknown workflow" for one in found["unknown"]}
        assert failures.pop(CHANGED), "the proof that this test can fail"
        assert failures.keys() == known.keys(), (
            f"{revision} must go on with workflows of this version after a rollback: {failures}"
        )


def changed_since(revision: str) -> dict[str, str]:
    """The previous version's histories that this one does not have; `test_replay` replays ours."""
    saved = {path.stem: path.read_text() for path in histories_of(unpacked(revision)).iterdir()}
    ours = {path.stem: path.read_text() for path in HISTORIES.iterdir()}
    return {name: text for name, text in saved.items() if ours.get(name) != text}


@pytest.mark.anyio
async def test_this_version_replays_the_histories_of_the_previous_one() -> None:
    for revision in versions():
        found = await other_code.read_histories(changed_since(revision))
        assert not found["failures"]
        assert not found["unknown"]


def test_each_version_reads_the_messages_of_the_other() -> None:
    ours = other_code.messages()
    for revision in versions():
        theirs = of_previous(revision)["messages"]
        known = NEW_IN_MESSAGES.get(revision, {})
        found = [
            f"{name}: {what}"
            for name in ours.keys() & theirs.keys()
            for writer, reader in ((ours, theirs), (theirs, ours))
            for what in unreadable(writer[name], reader[name])
            if not what.endswith(tuple(known))
        ]
        assert not found, f"one of {revision} and this version does not understand the other"
        assert not theirs.keys() - ours.keys(), "a workflow of the previous version needs them"


def test_a_release_may_go_back_to_the_newest_tag_and_to_the_minor_version_before() -> None:
    tags = ["v0.1.0", "v0.2.0", "0.10.0", "v0.2.1"]
    assert of_tags(tags[:1], "0.1.1") == ["v0.1.0"]
    assert of_tags(tags[:1], "0.2.0") == ["v0.1.0"]
    assert of_tags(["v0.1.0", "v0.2.0", "v0.2.1"], "0.2.2") == ["v0.2.1", "v0.1.0"]
    assert of_tags(tags, "0.11.0") == ["0.10.0"]
    assert of_tags([], "0.1.0") == []


@pytest.mark.parametrize(
    ("written", "read", "found"),
    [
        ({"n": {"type": "integer"}}, {"n": {"type": "integer"}}, []),
        ({"n": {"type": "integer"}}, {"n": {"type": "number"}}, []),
        ({"n": {"type": "string"}}, {"n": {"type": "integer"}}, [".n is string, and was integer"]),
        ({"n": {"default": 1}}, {"n": {"default": 1}, "new": {"default": None}}, []),
        (
            {"n": {"default": 1}},
            {"n": {"default": 2}},
            [".n is 1 where it is left out, and was 2"],
        ),
        (
            {"n": {"enum": ["a", "b"], "type": "string"}},
            {"n": {"enum": ["a"], "type": "string"}},
            [".n may be b, which is unknown"],
        ),
        (
            {"n": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}},
            {"n": {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}},
            [".n may be b, which is unknown"],
        ),
        ({"n": {"type": "null"}}, {"n": {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}}, []),
    ],
)
def test_a_message_that_another_version_cannot_read_is_found(
    written: dict[str, Any], read: dict[str, Any], found: list[str]
) -> None:
    def schema(properties: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": properties}

    assert unreadable(schema(written), schema(read)) == found


def test_a_field_that_a_reader_requires_must_always_be_written() -> None:
    read = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert unreadable({"type": "object", "properties": {}}, read) == [
        ".n is required, and not always written"
    ]
    assert unreadable(read, read) == []
