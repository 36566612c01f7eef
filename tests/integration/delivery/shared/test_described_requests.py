"""Receivers get just what the section `webhooks` of the OpenAPI document describes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from jwcrypto.jwk import JWK

from hookfast.events.operational import SYSTEM_TENANT, Kind
from tests.integration.api.inbound import SECRET, send
from tests.integration.api.shared.operations import DOCUMENT
from tests.integration.delivery.circuits import ON_REQUEST, until_circuit
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import PATIENT
from tests.integration.delivery.platform import Platform
from tests.support.api_client import Json
from tests.support.receiver import Request
from tests.support.seed import EVENT_TYPE
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

# HTTP's own (RFC 9110); OpenAPI has no parameter for the first
HTTP = {"content-type", "host", "content-length", "accept-encoding", "connection"}
MOST = ["hook", "standard", "standard-ed25519"]


def _resolved(value: Json) -> Json:
    if "$ref" not in value:
        return value
    found: Any = DOCUMENT
    for name in value["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return dict(found)


def _parameters(operation: Json) -> list[Json]:
    return [_resolved(one) for one in operation["parameters"]]


def _check_headers(operation: Json, request: Request) -> set[str]:
    """Check that the request has the described headers and no others, and return their names."""
    described = {one["name"].lower(): one for one in _parameters(operation)}
    sent = {name: value for name, value in request.headers.items() if name not in HTTP}
    assert sent.keys() <= described.keys()
    assert {name for name, one in described.items() if one["required"]} <= sent.keys()
    for name, value in sent.items():
        assert re.search(described[name]["schema"]["pattern"], value), (name, value)
    return {described[name]["name"] for name in sent}


def _check_body(operation: Json, request: Request) -> None:
    """Check that the body fits a schema of its media type, and that the schema knows its
    members."""
    media_type = request.headers["content-type"]
    schema = operation["requestBody"]["content"][media_type]["schema"]
    is_json = media_type == "application/json"
    value = json.loads(request.body) if is_json else request.body.decode()
    options = [option for option in schema.get("anyOf", [schema]) if _fits(option, value)]
    assert options, value
    if is_json:
        assert any(_knows_members(_resolved(option), value) for option in options), value


def _fits(schema: Json, value: Any) -> bool:
    whole = {**schema, "components": DOCUMENT["components"]}
    return Draft202012Validator(whole, format_checker=FormatChecker()).is_valid(value)


def _knows_members(schema: Json, value: Json) -> bool:
    data = _resolved(schema["properties"]["data"])
    return schema["properties"].keys() == value.keys() and (
        "properties" not in data or data["properties"].keys() == value["data"].keys()
    )


async def test_deliveries_of_events_are_as_described(platform: Platform, stack: Stack) -> None:
    client, receiver = platform.client, stack.receiver
    key = json.loads(JWK.generate(kty="OKP", crv="X25519").export_public())
    encryption = {"jwk": key, "alg": "ECDH-ES+A256KW"}
    endpoint = await platform.endpoint("/ok?nonce", signatures=[*MOST, "nonce"])
    await platform.endpoint("/ok?body", signatures=["body"])
    await platform.endpoint("/ok?rsa", signatures=["rsa"], encryption=encryption)
    thin = await platform.endpoint("/ok?thin", events=[])
    form = {"endpoint_id": thin["id"], "events": ["**"], "payload": "thin"}
    assert (await client.post("/subscriptions", json=form)).status_code == 201
    rotated = await client.post(f"/endpoints/{endpoint['id']}/rotate-secret")
    assert rotated.status_code == 200
    test = await client.post(f"/endpoints/{endpoint['id']}/test", json={"type": EVENT_TYPE})
    assert test.json()["succeeded"]
    await platform.emit({"amount": 129900})
    await receiver.wait_for(5)
    form = {"tenant_id": platform.tenant_id, "name": "x", "provider": "github", "secrets": [SECRET]}
    source = (await client.post("/sources", json=form)).json()
    assert (await send(client, source["id"], {})).status_code == 202
    requests = await receiver.wait_for(9)

    operation = DOCUMENT["webhooks"]["event"]["post"]
    seen: set[str] = set()
    for request in requests:
        assert request.method == "POST"
        seen |= _check_headers(operation, request)
        _check_body(operation, request)
    assert seen == {one["name"] for one in _parameters(operation)}
    by_path = {request.path: request for request in requests}
    link = json.loads(by_path["/ok?thin"].body)["data"]
    assert _fits({"$ref": "#/components/schemas/EventLink"}, link)
    assert by_path["/ok?rsa"].headers["content-type"] == "application/jose"


async def test_operational_events_are_as_described(platform: Platform, stack: Stack) -> None:
    client, receiver = platform.client, stack.receiver
    await platform.endpoint("/reports", tenant_id=SYSTEM_TENANT, events=["hookfast.**"])
    receiver.routes["/hook"] = "/status/500"
    failing = (await platform.endpoint("/hook", retry_plan=PATIENT, circuit=ON_REQUEST))["id"]
    for _ in range(3):
        await platform.emit({})
    await until_circuit(stack, failing, "open", "half_open")
    receiver.routes["/hook"] = "/ok"
    await client.post(f"/endpoints/{failing}/resume")
    await platform.emit({})  # the probe
    await until_circuit(stack, failing, "closed")
    receiver.routes["/hook"] = "/status/410"
    await platform.emit({})
    await _until_reported(stack, Kind.ENDPOINT_DISABLED)
    await client.post(f"/endpoints/{failing}/enable")
    form = {"tenant_id": platform.tenant_id, "name": "x", "provider": "github", "secrets": [SECRET]}
    source = (await client.post("/sources", json=form)).json()
    await send(client, source["id"], {}, **{"X-Hook-Hops": "5"})

    for kind in Kind:
        operation = DOCUMENT["webhooks"][kind.value]["post"]
        for request in await _until_reported(stack, kind):
            _check_headers(operation, request)
            _check_body(operation, request)


async def _until_reported(stack: Stack, kind: Kind) -> list[Request]:
    """Wait for an operational event of this kind, and return its requests."""

    async def received() -> list[Request]:
        return [
            request
            for request in stack.receiver.requests
            if request.path == "/reports" and request.headers["x-hook-topic"] == kind
        ]

    return list(await eventually(received))


@pytest.mark.parametrize(
    ("mode", "path"), [("header", "/challenge"), ("query", "/challenge-query")]
)
async def test_requests_that_verify_a_url_are_as_described(
    platform: Platform, mode: str, path: str
) -> None:
    await platform.endpoint(path, verification=mode, events=["order.*.paid"])
    [request] = platform.receiver.requests
    [(method, operation)] = DOCUMENT["webhooks"][f"verification.{mode}"].items()
    [challenge] = _parameters(operation)
    assert request.method == method.upper()
    if mode == "header":
        sent = request.headers[challenge["name"].lower()]
    else:
        name, _, sent = request.path.removeprefix(f"{path}?").partition("=")
        assert name == challenge["name"]
    assert re.search(challenge["schema"]["pattern"], sent)
