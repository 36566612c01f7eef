"""Every fenced block of the documentation is tested, or listed here with the reason."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from hookfast.receiver import KeyDirectory, KeySet, Verifier
from tests.docs.fenced import DOCS, ROOT, Block, all_blocks, blocks

TESTED = {
    "sh": "its commands are parsed here, and run in test_tours.py and tests/e2e/test_up.py",
    "python": "compiled here; run here, in test_tours.py and beside the guides' own tests",
    "js": "run here, in test_tours.py and in tests/integration/receiver/test_guide.py",
    "go": "run here and in tests/integration/receiver/test_guide.py, where there is go",
    "sql": "run in tests/integration/client/outbox/test_guide.py",
    "json": "parsed, and compared with the OpenAPI document",
    "yaml": "parsed",
}
UNTESTED = {
    "": "requests and output; those in signatures.md are written by signature_vectors.py",
    "text": "drawings, and the output of programs",
    "mermaid": "drawings, for forges",
    "html": "the frame of portal.md: tests/browser/test_portal.py embeds one",
}
NOT_RUN = {
    "it listens until it is stopped",
    "the tests start the receiver themselves",
    "the tests start the service themselves",
}
JSON_WITHOUT_MARK = {
    "docs/polling.md": 1,  # tests/integration/api/polling/test_items.py checks such answers
    "docs/receiving.md": 1,  # two members of a source
}
DOCUMENT: dict[str, Any] = json.loads((DOCS / "openapi.json").read_text())
VERIFY = DOCS / "verify.md"


def _each(*languages: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", all_blocks(*languages), ids=str)


def test_every_kind_of_block_is_tested_or_listed_with_a_reason() -> None:
    assert {block.language for block in all_blocks()} == TESTED.keys() | UNTESTED.keys()


def test_blocks_that_are_not_run_say_why() -> None:
    reasons = [re.fullmatch("not run: (.*)", block.mark) for block in all_blocks()]
    assert {reason[1] for reason in reasons if reason} == NOT_RUN


@_each("yaml")
def test_yaml_is_yaml(block: Block) -> None:
    assert yaml.safe_load(block.text)


@_each("python")
def test_python_compiles(block: Block) -> None:
    ast.parse(block.text, filename=str(block))


def test_json_without_a_mark_is_listed() -> None:
    unmarked = [block.page for block in all_blocks("json") if not block.mark]
    assert {page: unmarked.count(page) for page in unmarked} == JSON_WITHOUT_MARK


@_each("json")
def test_json_fits_the_openapi_document(block: Block) -> None:
    value = json.loads(block.text.replace("_…", "_" + "0" * 32))
    if schema := _schema_of(block.mark):
        whole = {**schema, "components": DOCUMENT["components"]}
        faults = [fault.message for fault in Draft202012Validator(whole).iter_errors(value)]
        assert faults == []
    elif block.mark == "the body of a delivery":
        assert list(value) == ["id", "type", "created_at", "tenant_id", "data"]


def _schema_of(mark: str) -> Any:
    """Return the schema that a mark names: `body of PATCH /v1/…` or `answer 202 of POST /v1/…`."""
    found = re.fullmatch(
        r"(?:body|answer (?P<status>\d+)) of (?P<method>[A-Z]+) (?P<path>\S+)", mark
    )
    if not found:
        return None
    operation = DOCUMENT["paths"][found["path"]][found["method"].lower()]
    part = operation["responses"][found["status"]] if found["status"] else operation["requestBody"]
    if "$ref" in part:
        part = DOCUMENT["components"]["responses"][part["$ref"].rpartition("/")[2]]
    [content] = part["content"].values()
    return content["schema"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on this machine")
@pytest.mark.parametrize(("changed", "says"), [("", "genuine\n"), ("tampered", "")])
def test_a_vector_verifies_by_hand_and_a_changed_one_does_not(changed: str, says: str) -> None:
    [block] = [one for one in all_blocks("sh") if one.mark == "with openssl"]
    script = block.text.replace("order.invoice.paid", changed or "order.invoice.paid")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == says


def test_the_vectors_verify_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    [block] = _vectors("python")
    text = block.text.replace(
        '"signature-vectors.json"', repr(str(DOCS / "signature-vectors.json"))
    )
    exec(compile(text, str(block), "exec"), {})  # noqa: S102 - the guide of this repository
    assert capsys.readouterr().out == _EXPECTED


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine")
def test_the_vectors_verify_in_node(tmp_path: Path) -> None:
    [block] = _vectors("js")
    [verify] = [one for one in blocks(VERIFY) if (one.language, one.mark) == ("js", "run")]
    (tmp_path / "verify.mjs").write_text(verify.text)
    (tmp_path / "main.mjs").write_text(block.text)
    assert _run("node", "main.mjs", folder=tmp_path) == _EXPECTED


@pytest.mark.slow  # compiling net/http takes half a minute
@pytest.mark.skipif(shutil.which("go") is None, reason="there is no go on this machine")
def test_the_vectors_verify_in_go(tmp_path: Path) -> None:
    [block] = _vectors("go")
    [verify] = [one for one in blocks(VERIFY) if (one.language, one.mark) == ("go", "run")]
    (tmp_path / "webhooks").mkdir()
    (tmp_path / "webhooks" / "verify.go").write_text(verify.text)
    (tmp_path / "main.go").write_text(block.text)
    (tmp_path / "go.mod").write_text("module example.test/receiver\n\ngo 1.21\n")
    assert _run("go", "run", ".", folder=tmp_path) == _EXPECTED


def test_the_scaling_guides_arithmetic_prints_the_shown_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {block.mark: block for block in blocks(DOCS / "guides" / "scaling.md")}
    exec(compile(found["prints"].text, str(found["prints"]), "exec"), {})  # noqa: S102 - the guide of this repository
    assert capsys.readouterr().out == found["printed"].text


def test_the_scaling_guides_event_counts_are_those_of_the_saved_histories() -> None:
    histories = ROOT / "tests" / "replay" / "histories"
    counts = {
        name: len(json.loads((histories / f"{name}.json").read_text())["events"])
        for name in (
            "delivered_at_once",
            "delivered_in_the_regular_lane",
            "delivered_after_two_retries",
        )
    }
    guide = " ".join((DOCS / "guides" / "scaling.md").read_text().split())
    at_once, regular, retried = counts.values()
    assert f"A run has {at_once} events" in guide
    assert f"({retried} in all after two retries, {at_once} without any)" in guide
    assert f"{regular} events in place of {at_once}" in guide


def test_the_guides_verifiers_with_public_keys_can_be_created() -> None:
    [block] = [one for one in blocks(VERIFY) if one.language == "python" and not one.mark]
    vectors = json.loads((DOCS / "signature-vectors.json").read_text())
    text = block.text.replace("whpk_…", vectors["keys"]["ed25519"]["public"])
    space = {"Verifier": Verifier, "KeySet": KeySet, "KeyDirectory": KeyDirectory}
    exec(compile(text, str(block), "exec"), space)  # noqa: S102 - the guide of this repository


_EXPECTED = (
    "standard dlv_0199f0a17c4e7d2f8b6a3c5e9d1f7042\n"
    "standard, while rotating dlv_0199f0a17c4e7d2f8b6a3c5e9d1f7042\n"
)


def _vectors(language: str) -> list[Block]:
    return [one for one in all_blocks(language) if one.mark == "vectors"]


def _run(*command: str, folder: Path) -> str:
    shutil.copy(DOCS / "signature-vectors.json", folder)
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
