"""MkDocs hook: adds the API reference to the site, and the decisions to its navigation."""

from __future__ import annotations

import json
from pathlib import Path

from api_reference import Reference, slug
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_DOCS = Path(__file__).parents[1]
_DOCUMENT = json.loads((_DOCS / "openapi.json").read_text())


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand the parts of the navigation that `mkdocs.yml` only names."""
    tags = [{tag["name"]: f"api/{slug(tag['name'])}.md"} for tag in _DOCUMENT["tags"]]
    api = ["api/index.md", *tags, {"Schemas": "api/schemas.md"}]
    decisions = [f"adr/{path.name}" for path in sorted((_DOCS / "adr").glob("*.md"))]
    navigation = config.nav or []
    navigation[-1]["Decisions"] = decisions
    for section in navigation:
        for entries in section.values():
            for entry in entries:
                if isinstance(entry, dict) and entry.get("API") == "api/index.md":
                    entry["API"] = api
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, text in Reference(_DOCUMENT).pages().items():
        text = f"---\nsearch:\n  boost: 0.5\n---\n{text}"  # a search should find the guides first
        files.append(File.generated(config, f"api/{name}", content=text))
    return files
