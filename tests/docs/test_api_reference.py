"""The API reference has every operation of the OpenAPI document, with its examples."""

from __future__ import annotations

import json
import re
import runpy
import sys
from typing import Any

from tests.docs.fenced import DOCS

DOCUMENT: dict[str, Any] = json.loads((DOCS / "openapi.json").read_text())
sys.path.insert(0, str(DOCS / "hooks"))  # as mkdocs does
REFERENCE = runpy.run_path(str(DOCS / "hooks" / "api_reference.py"))["Reference"](DOCUMENT)
sys.path.remove(str(DOCS / "hooks"))
PAGES: dict[str, str] = REFERENCE.pages()


def test_every_operation_is_described_with_its_scopes_and_parameters() -> None:
    whole = "\n".join(PAGES.values())
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            [after] = whole.split(f"{{#{operation['operationId']}}}")[1:]
            for scope in operation.get("x-scopes", []):
                assert f"`{scope}`" in after.partition("**Answers**")[0]
            for parameter in operation.get("parameters", []):
                assert f"`{parameter['name']}`" in after.partition("**Answers**")[0]


def test_every_webhook_is_described_with_its_headers_and_answers() -> None:
    page = PAGES["webhooks.md"]
    for methods in DOCUMENT["webhooks"].values():
        for operation in methods.values():
            assert f"{{#{operation['operationId']}}}" in page
            for parameter in operation["parameters"]:
                assert f"| `{REFERENCE.resolved(parameter)['name']}`" in page
            for answer in operation["responses"].values():
                assert REFERENCE.resolved(answer)["description"] in page


def test_every_linked_schema_is_described() -> None:
    linked = set(re.findall(r"schemas\.md#(\w+)", "\n".join(PAGES.values())))
    described = {name.lower() for name in re.findall(r"^## (\w+)", PAGES["schemas.md"], re.M)}
    assert linked <= described
