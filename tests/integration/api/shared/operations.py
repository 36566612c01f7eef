"""The operations of the API, from the committed OpenAPI document, which a test keeps up to date."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.api_client import Json

UNKNOWN = "0" * 32
"""The part after the prefix of an id that does not exist."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One route and method of the OpenAPI document."""

    method: str
    path: str
    document: Json

    @property
    def parameters(self) -> list[str]:
        """The names of its path parameters."""
        return re.findall(r"\{(\w+)\}", self.path)

    @property
    def queries(self) -> set[str]:
        """The names of its query parameters."""
        listed = self.document.get("parameters", [])
        return {item["name"] for item in listed if item["in"] == "query"}

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


DOCUMENT = json.loads((Path(__file__).parents[4] / "docs/openapi.json").read_text())


def _operations() -> list[Operation]:
    paths = DOCUMENT["paths"]
    return [
        Operation(method.upper(), path.removeprefix("/v1"), document)
        for path, methods in paths.items()
        if path.startswith("/v1/")
        for method, document in methods.items()
    ]


OPERATIONS = _operations()
EMITTING = {"POST /events", "POST /events/batch"}
