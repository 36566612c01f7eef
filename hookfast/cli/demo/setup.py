"""Sets the demo up through the API: tenant, event types, endpoints. A second run finds them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from api.access.authentication import new_key
from hookfast.cli.demo.client import Api
from hookfast.cli.demo.receiver import Receiver
from hookfast.cli.demo.scene import EVENT_TYPES, RECEIVERS, TENANT
from hookfast.cli.demo.scene import Receiver as Role


@dataclass(slots=True)
class Memory:
    """What one run leaves to the next, in `demo.json` of the home folder (mode 600: it holds the
    keys that are shown only once)."""

    path: Path
    operator_key: str = field(default_factory=new_key)
    receiver_port: int = 0
    tenant_id: str | None = None
    endpoints: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, home: Path) -> Memory:
        """The memory of the last run, or a new one."""
        path = home / "demo.json"
        if not path.exists():
            return cls(path)
        return cls(path, **json.loads(path.read_text()))

    def save(self) -> None:
        """Write it, whole or not at all."""
        members = asdict(self)
        del members["path"]
        new = self.path.with_suffix(".new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump(members, file, indent=2)
        new.replace(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What is set up: `names` are the receivers' by endpoint id."""

    tenant_id: str
    names: Mapping[str, str]


async def set_up(api: Api, memory: Memory, receiver: Receiver) -> Stage:
    """Make or find everything; `memory.secrets` has then every endpoint's secret."""
    if memory.tenant_id is None or await api.find(f"/tenants/{memory.tenant_id}") is None:
        memory.tenant_id = (await api.send("POST", "/tenants", {"name": TENANT}))["id"]
        memory.endpoints.clear()
    for event_type in EVENT_TYPES.values():
        await api.send(
            "PUT",
            f"/event-types/{event_type.name}",
            {"description": event_type.description, "schema": event_type.schema},
        )
    for role in RECEIVERS:
        await _set_up_endpoint(api, memory, receiver, role=role)
        memory.save()
    return Stage(
        tenant_id=str(memory.tenant_id),
        names={endpoint_id: name for name, endpoint_id in memory.endpoints.items()},
    )


async def _set_up_endpoint(api: Api, memory: Memory, receiver: Receiver, *, role: Role) -> None:
    url = receiver.url(role.name)
    known = memory.endpoints.get(role.name)
    endpoint = None if known is None else await api.find(f"/endpoints/{known}")
    if endpoint is None:
        created = await api.send("POST", "/endpoints", _form(role, url, memory.tenant_id))
        memory.endpoints[role.name] = created["id"]
        memory.secrets[role.name] = created["secret"]
        return
    if endpoint["url"] != url:
        await api.send("PATCH", f"/endpoints/{known}", {"url": url})
    if endpoint["state"] == "disabled":  # by its 410 in the last run
        await api.send("POST", f"/endpoints/{known}/enable")


def _form(role: Role, url: str, tenant_id: str | None) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "url": url,
        "description": f"{role.name}: {role.mood}",
        "events": role.events,
        "retry_plan": role.retry_plan,
        "circuit": role.circuit,
        "owner_emails": [f"{role.name}@demo.example"],
    }
