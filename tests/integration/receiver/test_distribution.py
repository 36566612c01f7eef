"""The receiver's wheel: built from this folder, and used where nothing else is installed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from hookfast.version import VERSION
from tests.integration.receiver import sent
from tests.support.wheel import build_wheel

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "packages" / "receiver"
SOURCE = ROOT / "hookfast" / "receiver"

# The imports of each module besides the standard library and its own package.
FOREIGN = {
    "flask.py": {"flask"},
    "keys.py": {"cryptography"},
    "starlette.py": {"anyio", "starlette"},
}

VERIFY = """
import importlib.util, json, sys
from hookfast.receiver import (
    Intake, KeyDirectory, KeySet, MemoryStore, Misconfigured, Verifier, WrongSignature,
)

request = json.load(sys.stdin)
body = request["body"].encode()
for profile in ("hook", "standard"):
    verified = Verifier(request["secret"], profiles=[profile]).verify(request["headers"], body)
    assert verified.message_id == "dlv_1", verified
try:
    Verifier(request["secret"]).verify(request["headers"], body + b" ")
except WrongSignature as error:
    print(error.code)
intake = Intake(Verifier(request["secret"]), store=MemoryStore())
intake.finish(intake.open(request["headers"], body))
print(intake.open(request["headers"], body).status)
for keys in (
    lambda: KeySet.from_public_keys("whpk_" + "A" * 43 + "="),
    lambda: KeyDirectory("https://hooks.example.com/.well-known/hookfast-keys.json"),
):
    try:
        keys()
    except Misconfigured as error:
        print(error)
print([name for name in ("cryptography", "pydantic", "hookfast.signing")
       if importlib.util.find_spec(name)])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(PACKAGE, tmp_path_factory.mktemp("distribution"))


def test_the_wheel_contains_only_the_receiver_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        said = archive.read(metadata).decode()
    expected = {f"hookfast/receiver/{path.name}" for path in SOURCE.glob("*.py")}
    assert names == expected | {"hookfast/receiver/py.typed"}
    required = [line for line in said.splitlines() if line.startswith("Requires-Dist:")]
    assert all("extra ==" in line for line in required)


def test_the_wheel_verifies_where_nothing_else_is_installed(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    options = ["--no-index", "--no-deps", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", *options],
        check=True,
    )
    body = sent.body()
    request = {"secret": sent.SECRET, "body": body.decode(), "headers": sent.headers(body)}
    done = subprocess.run(
        [python, "-I", "-W", "error", "-c", VERIFY],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "wrong_signature",
        "204",
        *["public keys need `cryptography`: pip install 'hookfast-receiver[asymmetric]'"] * 2,
        "[]",
    ]


def test_the_wheels_version_is_that_of_the_server() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*.py")), ids=lambda path: path.name)
def test_a_module_imports_only_its_package_and_its_extra(path: Path) -> None:
    allowed = sys.stdlib_module_names | FOREIGN.get(path.name, set())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 1 or (node.module or "").partition(".")[0] in allowed
