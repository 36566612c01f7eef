"""The steps of the `Dockerfile`, run without Docker: the installed package is complete, and runs
without the repository."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hookfast.version import VERSION

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
_STAGES = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)


def _context() -> list[str]:
    """Return the top-level names that `.dockerignore` includes."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    return [line.removeprefix("!") for line in lines if line.startswith("!")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hookfast as the build stage installs it, from the build context alone."""
    context = tmp_path_factory.mktemp("context")
    for name in _context():
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(source, context / name, ignore=ignored)
        else:
            shutil.copy(source, context / name)
    wheels = tmp_path_factory.mktemp("wheels")
    # as `pip wheel` does, in a third of the time
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(wheels)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=context, check=True)
    (wheel,) = wheels.iterdir()
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def _hookfast(installed: Path, home: Path, *arguments: str) -> str:
    """Run the installed command; -S excludes the editable install of the repository."""
    packages = [path for path in site.getsitepackages() if "site-packages" in path]
    ended = subprocess.run(
        [sys.executable, "-S", "-P", "-m", "hookfast.cli", *arguments],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(installed), *packages]),
            "HOOKFAST_HOME": str(home),
        },
        cwd=home,
        check=True,
        capture_output=True,
        text=True,
    )
    return ended.stdout


def test_the_installed_package_has_every_file(installed: Path) -> None:
    unneeded = ("*.pyc", "*/__pycache__/*", "*/README.md", "*.map")
    missing = [
        str(path.relative_to(ROOT))
        for package in ("api", "activities", "workflows", "hookfast")
        for path in (ROOT / package).rglob("*")
        if path.is_file()
        and not any(fnmatch.fnmatch(str(path), pattern) for pattern in unneeded)
        and not (installed / path.relative_to(ROOT)).is_file()
    ]
    assert missing == []
    assert (installed / "worker.py").is_file()


def test_the_installed_command_runs_and_creates_a_database(installed: Path, tmp_path: Path) -> None:
    assert _hookfast(installed, tmp_path, "version") == f"{VERSION}\n"
    assert "is at revision" in _hookfast(installed, tmp_path, "migrate")
    assert (tmp_path / "hookfast.db").is_file()


def test_both_stages_use_one_pinned_python() -> None:
    assert set(_STAGES) == {"${PYTHON_IMAGE}"}
    (image,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", image)


def test_locked_packages_are_installed_and_the_user_is_not_root() -> None:
    assert "--require-hashes --only-binary :all: -r requirements.txt" in DOCKERFILE
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    locked = (ROOT / "requirements.txt").read_text()
    pinned = re.findall(r"^[\w.-]+==", locked, re.MULTILINE)
    assert len(pinned) <= locked.count("--hash=sha256:")


def test_signals_reach_hookfast_itself() -> None:
    commands = re.findall(r"^(?:ENTRYPOINT|CMD) (.*)$", DOCKERFILE, re.MULTILINE)
    assert commands == ['["hookfast"]', '["up"]']
    assert "STOPSIGNAL SIGTERM" in DOCKERFILE
    assert "HEALTHCHECK" in DOCKERFILE


def test_the_label_and_the_compose_file_have_the_version() -> None:
    assert f'org.opencontainers.image.version="{VERSION}"' in DOCKERFILE
    assert f"hookfast:{VERSION}" in (ROOT / "docker-compose.yml").read_text()


def test_no_secret_is_in_the_build_context() -> None:
    assert not {".env", ".git", "var", "deploy", "tests"} & set(_context())
