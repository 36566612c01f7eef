"""The section `webhooks` of the OpenAPI document (OpenAPI 3.1, section 4.8.1)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from api.openapi.webhooks.events import DeliveredEvent, ThinDeliveredEvent
from api.openapi.webhooks.headers import header_parameters
from api.openapi.webhooks.operational import OPERATIONAL
from hookfast.deliveries.headers import JSON
from hookfast.events.operational import SYSTEM_TENANT
from hookfast.sender.verify import CHALLENGE_HEADER
from hookfast.signing.encryption import CONTENT_TYPE as ENCRYPTED

_TAGS = ["Webhooks"]
_SCHEMAS = "#/components/schemas/{model}"
_ANY_TEXT = {"type": "string"}

_RETRY_AFTER = {
    "description": "Seconds or an HTTP date (RFC 9110, section 10.2.3), up to 24 hours.",
    "schema": _ANY_TEXT,
}
_NOT_BEFORE = "A failure that is sent again as any other, but not before `Retry-After`."
_ANSWERS: dict[str, dict[str, Any]] = {
    "2XX": {"description": "Delivered. The body is not used; its start is stored for people."},
    "410": {
        "description": "The URL is gone for ever: the delivery ends, and the endpoint is disabled."
    },
    "429": {"description": _NOT_BEFORE, "headers": {"Retry-After": _RETRY_AFTER}},
    "503": {"description": _NOT_BEFORE, "headers": {"Retry-After": _RETRY_AFTER}},
    "508": {
        "description": "The event goes round in a loop: the delivery ends as a dead letter, and "
        "the endpoint's health does not change."
    },
    "default": {
        "description": "A failure, as is no complete answer within the endpoint's "
        "`timeout_seconds`. Redirects are failures too, and are not followed. The delivery is sent "
        "again after the delays of the endpoint's `retry_plan`, with the same `X-Hook-Id`. The "
        "plans `stepped` and `capped`, and plans with `retry_on: transient`, end it after a 4xx "
        "other than 408 (not `capped`) and 429."
    },
}
_NOT_VERIFIED = {
    "description": "The URL is not verified, and the request that named it is answered with "
    "`verification_failed` and the reason. Nor is it without a complete answer."
}

_EVENT = """\
An event, sent to the endpoint of every subscription to its type.

It arrives at least once: it is sent again if your answer is lost, so remember the `X-Hook-Id` of
what is done. Verify a signature over the exact bytes of the body before you use them. The headers
of a profile are sent if it is among the endpoint's `signatures`, which are `hook` and `standard` by
default. The endpoint's own `headers` come in addition, and what its `authentication` demands.
"""
_OPERATIONAL = f"""\
{{meaning}}

Hookfast emits it to endpoints of the system tenant, `{SYSTEM_TENANT}`, with a subscription to it,
such as `hookfast.**`. Only an operator's key can create these. It is signed and sent again as any
event.
"""
_BY_HEADER = """\
Sent once for each pattern that the endpoint subscribes to, if its `verification` is `header`.
Answer 2xx and return the header only for tenants and patterns that you expect.
"""
_BY_QUERY = """\
Sent once, if the endpoint's `verification` is `query`. Answer 2xx, with the challenge as the body.
"""


def add_webhooks(document: dict[str, Any]) -> None:
    """Add the requests that receivers get, and the components that they refer to."""
    components = document["components"]
    components["schemas"].update(
        _schemas(DeliveredEvent, ThinDeliveredEvent, *OPERATIONAL.values())
    )
    components["parameters"] = header_parameters()
    components["responses"] |= {_response_name(status): one for status, one in _ANSWERS.items()}
    document["webhooks"] = {
        "event": {"post": _event()},
        **{
            kind.value: {"post": _operational(kind.value, body)}
            for kind, body in OPERATIONAL.items()
        },
        "verification.header": {"get": _verification_by_header()},
        "verification.query": {"get": _verification_by_query()},
    }


def _schemas(*models: type[BaseModel]) -> dict[str, Any]:
    _, found = models_json_schema(
        [(model, "serialization") for model in models], ref_template=_SCHEMAS
    )
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _event() -> dict[str, Any]:
    full, thin = (
        _reference("schemas", model.__name__) for model in (DeliveredEvent, ThinDeliveredEvent)
    )
    return _delivery(
        name="on_event",
        summary="An event",
        description=_EVENT,
        content={
            JSON: {"schema": {"anyOf": [full, thin]}},
            ENCRYPTED: {
                "schema": {
                    "type": "string",
                    "pattern": r"^[\w-]+(\.[\w-]+){4}$",
                    "description": "The body for an endpoint with `encryption`: JWE in compact "
                    "serialisation (RFC 7516), different in each attempt. Verify the signature of "
                    "these bytes, then decrypt them.",
                }
            },
            "*/*": {
                "schema": {
                    "description": "With payload style `raw`: body, content type and headers of "
                    "the request that a source received, byte for byte. With `mapped`: what the "
                    "subscription's expression makes of the event, as JSON."
                }
            },
        },
    )


def _operational(kind: str, body: type[BaseModel]) -> dict[str, Any]:
    return _delivery(
        name="on_" + kind.replace(".", "_"),
        summary=kind,
        description=_OPERATIONAL.format(meaning=body.__doc__),
        content={JSON: {"schema": _reference("schemas", body.__name__)}},
    )


def _delivery(
    *, name: str, summary: str, description: str, content: dict[str, Any]
) -> dict[str, Any]:
    return {
        "tags": _TAGS,
        "summary": summary,
        "description": description.rstrip(),
        "operationId": name,
        "parameters": [_reference("parameters", header) for header in header_parameters()],
        "requestBody": {"required": True, "content": content},
        "responses": {
            status: _reference("responses", _response_name(status)) for status in _ANSWERS
        },
    }


def _verification_by_header() -> dict[str, Any]:
    challenge = {
        "description": "The tenant's id, a dot, and a pattern of the endpoint's subscriptions.",
        "required": True,
        "schema": {"type": "string", "pattern": r"^tnt_[0-9a-f]{32}\.\S+$"},
    }
    returned = challenge | {"description": "The header of the request, unchanged."}
    return {
        "tags": _TAGS,
        "summary": "A challenge in a header",
        "description": _BY_HEADER.rstrip(),
        "operationId": "on_verification_header",
        "parameters": [challenge | {"name": CHALLENGE_HEADER, "in": "header"}],
        "responses": {
            "2XX": {"description": "Verified.", "headers": {CHALLENGE_HEADER: returned}},
            "default": _NOT_VERIFIED,
        },
    }


def _verification_by_query() -> dict[str, Any]:
    challenge = {"type": "string", "pattern": r"^[\w-]{32}$"}
    return {
        "tags": _TAGS,
        "summary": "A challenge in the query",
        "description": _BY_QUERY.rstrip(),
        "operationId": "on_verification_query",
        "parameters": [
            {
                "name": "challenge",
                "in": "query",
                "required": True,
                "description": "A random text.",
                "schema": challenge,
            }
        ],
        "responses": {
            "2XX": {"description": "Verified.", "content": {"text/plain": {"schema": challenge}}},
            "default": _NOT_VERIFIED,
        },
    }


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}


def _response_name(status: str) -> str:
    return f"Webhook-{status}"
