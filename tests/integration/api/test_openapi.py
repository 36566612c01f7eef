"""The OpenAPI document is complete and correct."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from hookfast.events.operational import Kind
from hookfast.settings.settings import Settings
from tests.integration.api.shared.operations import DOCUMENT
from tests.support.api_client import Json, borrowed_app

pytestmark = pytest.mark.anyio

OPERATIONS = [
    pytest.param(operation, id=f"{method.upper()} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        here = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return here.union(*map(_references, value.values()))
    if isinstance(value, list):
        return set().union(*map(_references, value))
    return set()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_has_a_name_a_summary_and_a_described_tag(operation: Json) -> None:
    assert operation["operationId"].replace("_", "").isalnum()
    assert operation["summary"]
    [tag] = operation["tags"]
    assert tag in [described["name"] for described in DOCUMENT["tags"]]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_behind_a_key_documents_its_problems(operation: Json) -> None:
    if "security" not in operation:
        return
    for status in ("401", "403", "404", "422", "503"):
        reference = operation["responses"][status]["$ref"]
        response = DOCUMENT["components"]["responses"][reference.rpartition("/")[2]]
        assert list(response["content"]) == ["application/problem+json"]
    if "requestBody" in operation:
        assert {"409", "413", "415"} <= operation["responses"].keys()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_behind_a_key_names_the_scopes_it_takes(operation: Json) -> None:
    assert ("security" in operation) == ("x-scopes" in operation)
    for scope in operation.get("x-scopes", []):
        assert scope in ("operator", "tenant", "tenant:read", "emit")


def test_every_operational_event_is_a_webhook() -> None:
    assert {kind.value for kind in Kind} <= DOCUMENT["webhooks"].keys()


def test_operation_ids_are_unique() -> None:
    webhooks = [one for methods in DOCUMENT["webhooks"].values() for one in methods.values()]
    operations = [parameter.values[0] for parameter in OPERATIONS] + webhooks
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))


def test_every_reference_resolves() -> None:
    components = DOCUMENT["components"]
    for reference in _references(DOCUMENT):
        kind, name = reference.removeprefix("#/components/").split("/")
        assert name in components[kind]


def test_document_has_no_schema_of_fastapis_validation_error() -> None:
    assert "HTTPValidationError" not in DOCUMENT["components"]["schemas"]


def test_request_bodies_reject_unknown_members() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        if name.startswith("New") or name.endswith("Form"):
            assert schema["additionalProperties"] is False, name


async def test_the_document_and_its_page_are_served(sqlite_url: str) -> None:
    with borrowed_app(Settings(database_url=sqlite_url)) as app:
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://hookfast.test"
        ) as client:
            assert (await client.get("/openapi.json")).json() == DOCUMENT
            assert "/openapi.json" in (await client.get("/docs")).text


async def test_docs_page_loads_nothing_from_other_hosts(client: httpx2.AsyncClient) -> None:
    page = await client.get(client.base_url.join("/docs"))
    assert page.status_code == 200
    linked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert linked
    for url in linked:
        if url in ("#content", "/dashboard", "/docs", "/guide"):
            continue
        assert url.startswith(("/docs/assets/", "/assets/", "/openapi.json"))
        assert (await client.get(client.base_url.join(url))).status_code == 200
    assert "https://" not in page.text
