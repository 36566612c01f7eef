"""The parts of the OpenAPI document that are not in the routes: introduction, tags and problems."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api.answers.problem_responses import problem_components
from api.answers.problems import ProblemModel
from api.openapi.examples import add_examples
from api.openapi.glossary import describe_all
from api.openapi.webhooks.document import add_webhooks
from hookfast.version import VERSION

TITLE = "Hookfast"
SUMMARY = "Durable webhooks: emitted once, delivered to every subscriber, traced to the last retry."
DESCRIPTION = """\
Emit an event once; every matching subscription gets a signed POST, retried for three days.

**Authentication.** Send an API key with every request: `Authorization: Bearer hf_…`. An `operator`
key sees everything; a `tenant` key reads and writes what belongs to its tenant and implies
`tenant_id`; a `tenant:read` key reads it; an `emit` key emits events and nothing else. Objects of
another tenant do not exist for you: requests for them get 404.

**Errors** are problem details (RFC 9457) with a stable `code`; input errors list every error under
`errors`. **Lists** are newest first: pass `next_cursor` as `cursor` until it is null. **Times** are
RFC 3339 in UTC; in a URL, write the `+` of an offset as `%2B`. **PATCH** is a JSON merge patch
(RFC 7396): `null` resets a member. Unknown members and unknown query parameters are rejected, so
that a typing error never goes unnoticed; so are a header that occurs twice where one is meant
(400), and a compressed body (415). HEAD is answered wherever GET is, except by the stream.
"""
TAGS = [
    {"name": "Events", "description": "Facts you emit, once each."},
    {"name": "Stream", "description": "Events as they are emitted, without a URL of your own."},
    {"name": "Deliveries", "description": "One event on its way to one subscription."},
    {"name": "Dead letters", "description": "Deliveries that ended without success."},
    {"name": "Figures", "description": "Deliveries and attempts over time."},
    {"name": "Recovery", "description": "Sending failed or missed deliveries again."},
    {"name": "Jobs", "description": "One action on many deliveries, at a steady rate."},
    {"name": "Endpoints", "description": "The URLs that receive, with secrets and retry plans."},
    {"name": "Endpoint control", "description": "Pausing and disabling endpoints; their health."},
    {"name": "Endpoint checks", "description": "Tests, verification and statistics of endpoints."},
    {
        "name": "Endpoint credentials",
        "description": "How requests authenticate themselves to an endpoint: tokens and client "
        "certificates.",
    },
    {"name": "Polling", "description": "Fetching an endpoint's events instead of receiving them."},
    {"name": "Signatures", "description": "Rotating secrets; the public keys of receivers."},
    {"name": "Subscriptions", "description": "Which event types go to which endpoint."},
    {"name": "Sources", "description": "Providers whose webhooks come in, and their secrets."},
    {"name": "Inbox", "description": "Received webhooks, once each, and their results."},
    {"name": "Inbound", "description": "The addresses that providers send webhooks to."},
    {"name": "Event types", "description": "The catalogue of events that can be emitted."},
    {"name": "Tenants", "description": "Your customers."},
    {"name": "API keys", "description": "Who may call this API."},
    {"name": "Portal links", "description": "Access to the portal without an API key."},
    {"name": "Search", "description": "From an id, a key, a URL or a name to what it belongs to."},
    {"name": "Audit log", "description": "Who changed what, and when."},
    {"name": "Retention", "description": "How long data is kept, and what was deleted."},
    {"name": "Webhooks", "description": "The requests that your endpoints receive."},
    {"name": "Health", "description": "For load balancers and orchestrators."},
]


def install(app: FastAPI) -> None:
    """Make `app.openapi()` return the whole document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=TITLE,
                version=VERSION,
                summary=SUMMARY,
                description=DESCRIPTION,
                routes=app.routes,
                tags=TAGS,
            )
            _add_problems(document)
            add_webhooks(document)
            describe_all(document)
            add_examples(document)
            _name_scopes(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI's documented way to extend it


def _add_problems(document: dict[str, Any]) -> None:
    template = "#/components/schemas/{model}"
    schema = ProblemModel.model_json_schema(ref_template=template)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.update(schema.pop("$defs"))
    schemas["Problem"] = schema | {"title": "Problem"}
    components["responses"] = problem_components()


def _name_scopes(document: dict[str, Any]) -> None:
    """List under `x-scopes` the scopes of keys that an operation accepts. Under `security` they
    would mean that a key needs all of them (OpenAPI 3.1, section 4.8.30)."""
    for methods in document["paths"].values():
        for operation in methods.values():
            for requirement in operation.get("security", []):
                operation["x-scopes"] = requirement["Bearer"]
                requirement["Bearer"] = []
