"""Builds the wheels of the packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def build_wheel(package: Path, folder: Path) -> Path:
    """Build the wheel of a package in `folder`, without a package index."""
    # in a copy, because the build creates folders beside the sources
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(package, folder / "source", ignore=ignored)
    # as `pip wheel` does, in a third of the time
    build = "from setuptools.build_meta import build_wheel; build_wheel('..')"
    subprocess.run([sys.executable, "-c", build], cwd=folder / "source", check=True)
    (built,) = folder.glob("*.whl")
    return built
