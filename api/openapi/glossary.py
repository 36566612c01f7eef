"""The meaning of members and parameters that mean the same wherever they appear in the API.

A field describes itself where its meaning is special. Whatever has no description of its own gets
the glossary's in the OpenAPI document, so that a word is explained once and in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel

GLOSSARY: Final[Mapping[str, str]] = {
    # -- ids
    "delivery_id": "Id of the delivery that this is about, `dlv_…`.",
    "endpoint_id": "Id of the endpoint that this is about, `ep_…`.",
    "event_id": "Id of the event that this is about, `evt_…`.",
    "source_id": "Id of the source that this is about, `src_…`.",
    "subscription_id": "Id of the subscription that this is about, `sub_…`.",
    "tenant_id": "Id of the tenant that it belongs to, `tnt_…`.",
    # -- times
    "created_at": "When it was created, in UTC.",
    "updated_at": "When it was last changed; `created_at` if it never was.",
    "finished_at": "When it ended; null while it has not.",
    "deliver_at": "The time until which delivery waits, chosen when the event was emitted; null: "
    "it is delivered at once.",
    # -- events and deliveries
    "event_type": "Type of the event, e.g. `order.invoice.paid`.",
    "ordering_key": "The sequence that the event belongs to, chosen when it was emitted: where "
    "deliveries are ordered, events with the same key are sent one after the other. Null: none "
    "was given.",
    "payload": "What is sent of an event: `full` its data, `thin` its id and a URL, `raw` the "
    "request that a source received, `mapped` the result of the subscription's mapping.",
    "duration_ms": "Time from the start of the request to its end, in milliseconds.",
    "result": "The result of the request: `success` (2xx), `status` (any other response), or what "
    "prevented a complete response, such as `dns`, `tls` or `timeout`.",
    "status_code": "HTTP status of the response; null if none. Of a broken one, only a 2xx counts.",
    # -- everything else
    "data": "The objects of this page, at most `limit`; empty if none match.",
    "workflow": "The Temporal workflow that carries it out.",
}


def described_as_in(form: type[BaseModel]) -> Callable[[dict[str, Any]], None]:
    """Return the `json_schema_extra` of a view that shows the members of this form: those without a
    description of their own get the form's."""
    texts = {
        field.alias or name: field.description
        for name, field in form.model_fields.items()
        if field.description
    }

    def describe(schema: dict[str, Any]) -> None:
        for name, member in schema["properties"].items():
            if "description" not in member and name in texts:
                member["description"] = texts[name]

    return describe


def describe_all(document: dict[str, Any]) -> None:
    """Add the glossary's descriptions to the members and parameters of an OpenAPI document that
    have none."""
    for schema in document["components"]["schemas"].values():
        _describe_members(schema)
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                text = parameter["schema"].pop("description", None)
                _describe(parameter, parameter["name"], text)


def _describe_members(schema: dict[str, Any]) -> None:
    for name, member in schema.get("properties", {}).items():
        _describe(member, name)


def _describe(thing: dict[str, Any], name: str, text: str | None = None) -> None:
    found = thing.get("description") or text or GLOSSARY.get(name)
    if found is not None:
        thing["description"] = found
