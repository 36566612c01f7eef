"""The client's wheel, and the client inside the server's distribution."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from setuptools import find_packages

from hookfast.version import VERSION
from hookfast_client.version import VERSION as CLIENT_VERSION
from tests.support.wheel import build_wheel

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "packages" / "client"
SOURCE = PACKAGE / "hookfast_client"

# The imports of each module or folder besides the standard library, httpx2 and its own package.
FOREIGN: dict[str, set[str]] = {
    "outbox": {"alembic", "asyncpg", "psycopg", "sqlalchemy"},
    "temporal.py": {"temporalio"},
}

USE = """
import sys
sys.path.insert(0, sys.argv[1])
import hookfast_client
assert hookfast_client.__file__.startswith(sys.argv[1]), hookfast_client.__file__
from hookfast_client import ConnectionFailed, Hookfast
with Hookfast("http://127.0.0.1:9", "hf_key", max_retries=0) as hookfast:
    try:
        hookfast.events.emit("order.invoice.paid", {"amount": 1})
    except ConnectionFailed as error:
        print(error)
print(sorted({"hookfast", "opentelemetry", "pydantic", "sqlalchemy"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(PACKAGE, tmp_path_factory.mktemp("distribution"))


def test_the_wheel_contains_the_client_and_needs_only_httpx2(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        said = archive.read(metadata).decode().splitlines()
    modules = {str(path.relative_to(PACKAGE)) for path in SOURCE.rglob("*.py")}
    assert modules <= names
    assert "hookfast_client/py.typed" in names
    assert not [name for name in names if not name.startswith("hookfast_client/")]
    required = [line for line in said if line.startswith("Requires-Dist:") and "extra" not in line]
    assert required == ["Requires-Dist: httpx2>=2.16"]
    assert f"Version: {VERSION}" in said


def test_the_wheel_works_without_the_server(wheel: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", USE, str(wheel)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "There is no Hookfast at http://127.0.0.1:9 ([Errno 111] Connection refused).",
        "[]",
    ]


def test_the_clients_version_is_that_of_the_server() -> None:
    assert CLIENT_VERSION == VERSION


def test_the_servers_distribution_contains_the_client() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = find_packages(str(PACKAGE), include=project["find"]["include"])
    assert {"hookfast_client", "hookfast_client.aio", "hookfast_client.sync"} <= set(found)
    assert "packages/client" in project["find"]["where"]


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_a_module_imports_only_httpx2_its_package_and_its_extra(path: Path) -> None:
    name = path.relative_to(SOURCE).parts[0]
    allowed = sys.stdlib_module_names | {"httpx2", "hookfast_client"} | FOREIGN.get(name, set())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] in allowed
