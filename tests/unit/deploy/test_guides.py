"""Files, variables and services that the deployment guides name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from hookfast.settings.settings import Settings

ROOT = Path(__file__).parents[3]
GUIDES = [ROOT / "docs/production.md", ROOT / "docs/upgrading.md"]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())

each_guide = pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)


@each_guide
def test_links_lead_to_files(guide: Path) -> None:
    for target in re.findall(r"\]\(((?!https?://)[^)#]+)", guide.read_text()):
        assert (guide.parent / target).exists(), target


@each_guide
def test_named_files_exist(guide: Path) -> None:
    named = re.findall(r"`((?:tests|deploy)/(?!compose/secrets)[\w./-]+)`", guide.read_text())
    for path in named:
        assert (ROOT / path).exists(), path


@each_guide
def test_variables_are_settings_or_in_the_compose_file(guide: Path) -> None:
    known = {f"HOOKFAST_{name.upper()}" for name in Settings.model_fields}
    compose = set(re.findall(r"\$\{(HOOKFAST_\w+)", (ROOT / "docker-compose.yml").read_text()))
    for variable in re.findall(r"\bHOOKFAST_[A-Z_]+[A-Z]", guide.read_text()):
        assert variable in compose or variable.removesuffix("_FILE") in known, variable


@each_guide
def test_compose_commands_name_services(guide: Path) -> None:
    for line in re.findall(r"^docker compose (.*)$", guide.read_text(), re.MULTILINE):
        words = [word for word in line.split() if not word.startswith("-")]
        if words[0] in ("up", "run") and len(words) > 1:
            assert words[1] in COMPOSE["services"], line
