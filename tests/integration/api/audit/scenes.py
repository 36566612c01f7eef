"""For each writing operation of the API, how it succeeds and which audit log entry it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

import trustme

from tests.integration.api.shared.operations import OPERATIONS, Operation
from tests.support.api_client import Json
from tests.support.seed_inbox import SOURCE_SECRET

EVENT_TYPE = "order.invoice.paid"
RECEIVER = "http://127.0.0.1:4/hook"

EVENT = {"tenant_id": "{tenant_id}", "type": EVENT_TYPE, "data": {}}
NOT_AUDITED: dict[str, Json | None] = {
    # an event is a row that never changes, and GET /events lists it
    "POST /events": EVENT,
    "POST /events/batch": {"events": [EVENT]},
    # these send requests to the receiver, and change nothing
    "POST /endpoints/{endpoint_id}/test": {"type": EVENT_TYPE},
    "POST /endpoints/{endpoint_id}/verify": None,
    # this only reads
    "POST /subscriptions/preview": {"endpoint_id": "{endpoint_id}", "events": ["**"]},
}
"""Writing operations that leave no entry, with a body, and why."""


Before = tuple[str, str, Json | None]
"""Method, path and body of a request."""


@dataclass(frozen=True, slots=True)
class Scene:
    """How a writing operation succeeds: its body, the requests before it, and the entry it leaves.
    `about` is the entry's resource: the name of a path parameter, or `id` for the response's."""

    action: str
    about: str
    body: Json | None = None
    before: tuple[Before, ...] = ()
    temporal: bool = False


@dataclass(frozen=True, slots=True)
class Scenes:
    """Scenes by their operation."""

    found: dict[str, Scene] = field(default_factory=dict)

    def of(self, operation: Operation) -> Scene:
        assert str(operation) in self.found, "add a scene, or add it to NOT_AUDITED with the reason"
        return self.found[str(operation)]


ENDPOINT = {"tenant_id": "{tenant_id}", "url": RECEIVER, "verification": "none", "events": ["**"]}
ENDPOINT_PATH = "/endpoints/{endpoint_id}"
DISABLE = f"{ENDPOINT_PATH}/disable"
BASIC = {"kind": "basic", "username": "shop", "password": "x"}
HTTPS: Before = ("PATCH", ENDPOINT_PATH, {"url": "https://127.0.0.1:4/"})
TLS = {"authorities": trustme.CA().cert_pem.bytes().decode()}
SOURCE = {
    "tenant_id": "{tenant_id}",
    "name": "x",
    "provider": "github",
    "secrets": [SOURCE_SECRET],
}

SCENES = Scenes(
    {
        "POST /tenants": Scene("tenant.create", "id", {"name": "New"}),
        "PATCH /tenants/{tenant_id}": Scene("tenant.update", "tenant_id", {"name": "Other"}),
        "DELETE /tenants/{tenant_id}": Scene("tenant.delete", "tenant_id"),
        "POST /api-keys": Scene("api_key.create", "id", {"name": "x", "scope": "emit"}),
        "POST /tenants/{tenant_id}/api-keys": Scene("api_key.create", "id", {"name": "x"}),
        "DELETE /api-keys/{key_id}": Scene("api_key.revoke", "key_id"),
        "POST /tenants/{tenant_id}/portal-links": Scene(
            "portal_link.create", "tenant_id", {"scope": "tenant"}
        ),
        "PUT /event-types/{name}": Scene("event_type.update", "name", {"description": "new"}),
        "DELETE /event-types/{name}": Scene("event_type.delete", "name"),
        "POST /endpoints": Scene("endpoint.create", "id", ENDPOINT),
        "PATCH /endpoints/{endpoint_id}": Scene(
            "endpoint.update", "endpoint_id", {"max_in_flight": 7}
        ),
        "DELETE /endpoints/{endpoint_id}": Scene("endpoint.delete", "endpoint_id"),
        "POST /endpoints/{endpoint_id}/pause": Scene("endpoint.pause", "endpoint_id"),
        "POST /endpoints/{endpoint_id}/resume": Scene(
            "endpoint.resume", "endpoint_id", before=(("POST", f"{ENDPOINT_PATH}/pause", None),)
        ),
        "POST /endpoints/{endpoint_id}/disable": Scene("endpoint.disable", "endpoint_id"),
        "POST /endpoints/{endpoint_id}/enable": Scene(
            "endpoint.enable", "endpoint_id", {"redrive": False}, before=(("POST", DISABLE, None),)
        ),
        "POST /endpoints/{endpoint_id}/rotate-secret": Scene(
            "endpoint.rotate_secret", "endpoint_id", {"overlap_seconds": 60}
        ),
        "PUT /endpoints/{endpoint_id}/authentication": Scene(
            "endpoint.set_authentication", "endpoint_id", BASIC
        ),
        "DELETE /endpoints/{endpoint_id}/authentication": Scene(
            "endpoint.delete_authentication",
            "endpoint_id",
            before=(("PUT", f"{ENDPOINT_PATH}/authentication", BASIC),),
        ),
        "PUT /endpoints/{endpoint_id}/tls": Scene(
            "endpoint.set_tls", "endpoint_id", TLS, before=(HTTPS,)
        ),
        "DELETE /endpoints/{endpoint_id}/tls": Scene(
            "endpoint.delete_tls",
            "endpoint_id",
            before=(HTTPS, ("PUT", f"{ENDPOINT_PATH}/tls", TLS)),
        ),
        "POST /endpoints/{endpoint_id}/recover": Scene(
            "endpoint.recover", "endpoint_id", {"since": "2026-01-01T00:00:00Z"}
        ),
        "POST /subscriptions": Scene(
            "subscription.create", "id", {"endpoint_id": "{endpoint_id}", "events": ["**"]}
        ),
        "PATCH /subscriptions/{subscription_id}": Scene(
            "subscription.update", "subscription_id", {"active": False}
        ),
        "DELETE /subscriptions/{subscription_id}": Scene("subscription.delete", "subscription_id"),
        "POST /sources": Scene("source.create", "id", SOURCE),
        "PATCH /sources/{source_id}": Scene("source.update", "source_id", {"active": False}),
        "DELETE /sources/{source_id}": Scene("source.delete", "source_id"),
        "POST /sources/{source_id}/rotate-secret": Scene(
            "source.rotate_secret", "source_id", {"overlap_seconds": 60}
        ),
        "POST /retention/runs": Scene("retention.run", "id", {"dry_run": False}, temporal=True),
        "POST /inbox/{inbox_id}/retry": Scene("inbox.retry", "inbox_id"),
        "POST /events/{event_id}/replay": Scene("event.replay", "event_id", {"include_new": True}),
        "POST /dead-letters/redrive": Scene("dead_letter.redrive", "id", {"all": True}),
        "POST /deliveries/actions": Scene(
            "delivery.cancel", "id", {"action": "cancel", "all": True}
        ),
        "POST /jobs/{job_id}/cancel": Scene("job.cancel", "job_id"),
        **{
            f"POST /deliveries/{{delivery_id}}/{action}": Scene(f"delivery.{action}", "delivery_id")
            for action in ("pause", "resend", "cancel")
        },
        "POST /deliveries/{delivery_id}/resume": Scene(
            "delivery.resume",
            "delivery_id",
            before=(("POST", "/deliveries/{delivery_id}/pause", None),),
        ),
    }
)


def needs_temporal(operation: Operation) -> bool:
    """Whether the operation's scene starts a workflow."""
    scene = SCENES.found.get(str(operation))
    return scene is not None and scene.temporal


WRITING = [each for each in OPERATIONS if each.method != "GET"]
AUDITED = [each for each in WRITING if str(each) not in NOT_AUDITED]
# a retention run changes nothing in the database until its workflow runs
STORED = [each for each in AUDITED if not needs_temporal(each)]
