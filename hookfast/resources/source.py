"""The settings of a source, as the API accepts them and pages show them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from hookfast.resources.fields import Input, Name
from hookfast.resources.setting import Dashboard, Page

MAX_WINDOW_SECONDS = 30 * 86_400


class IdempotencyForm(Input):
    """Which events are the same business fact, even with different delivery ids."""

    expression: str | dict[str, str] = Field(
        "suggested",
        description="A JMESPath expression over the payload, an object of event type patterns and "
        "expressions, or `suggested` for the provider's own. An event without a result is a fact "
        "of its own. Event types are the provider's, before `event_types` renames them.",
        examples=["suggested", "[repository.full_name, ref, after]"],
    )
    window_seconds: int = Field(
        86_400,
        ge=1,
        le=MAX_WINDOW_SECONDS,
        description="How long after the first event other events of the fact are suppressed.",
    )


class SourceSettings(Input):
    """The settings of a source, which can be changed later."""

    name: Annotated[Name, Page(wide=True), Dashboard("Name")]
    allowed_networks: Annotated[
        list[str],
        Page(group="networks"),
        Dashboard(
            "Allowed networks",
            "One per line, e.g. 192.30.252.0/22. Empty: any; the signature decides.",
            unset="any; the signature decides",
        ),
    ] = Field(
        default_factory=list,
        max_length=200,
        description="Networks (CIDR) that may send requests; default: any, since requests are "
        "signed.",
        examples=[["192.30.252.0/22"]],
    )
    options: Annotated[
        dict[str, Any],
        Page(kind="json", rows=3),
        Dashboard(
            "Options of the provider",
            "A JSON object. Empty: the defaults, which suit most.",
            placeholder='{"tolerance_seconds": 300}',
            unset="the provider's defaults",
        ),
    ] = Field(default_factory=dict, description="Options of the provider; see docs/receiving.md.")
    event_types: Annotated[
        dict[str, str],
        Page(kind="json", group="types", rows=3),
        Dashboard(
            "Event type names",
            'A JSON object: {"github.push.received": "code.branch.pushed"}',
            placeholder='{"github.push.received": "code.branch.pushed"}',
            unset="as the provider names them",
        ),
    ] = Field(
        default_factory=dict,
        description="Renames: the provider's event types, or patterns of them, and the event type "
        "to emit instead. If several match, the narrowest applies.",
        examples=[{"github.push.received": "code.branch.pushed"}],
    )
    id_expression: Annotated[
        str | None,
        Page(group="id"),
        Dashboard(
            "Delivery id",
            "A JMESPath expression, where the provider sends no id.",
            placeholder="id",
            unset="as the provider sends it",
        ),
    ] = Field(
        None,
        description="A JMESPath expression over the payload for the delivery id, if the provider "
        "sends none. Without either, the body's hash is the id.",
        examples=["id"],
    )
    idempotency: Annotated[
        IdempotencyForm | None,
        Page(kind="fact", group="fact"),
        Dashboard(
            "Business fact",
            "A JMESPath expression, or “suggested”: each fact becomes one event. Empty: "
            "each request becomes one.",
            placeholder="suggested",
            unset="each request becomes an event",
        ),
    ] = Field(None, description="Emit each business fact once; default: emit every delivery.")
    active: bool = Field(True, description="If false, requests get 404.")
