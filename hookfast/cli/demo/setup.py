"""Sets up the demo through the API: tenant, event types and endpoints. Later runs reuse them."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from hookfast.cli.demo.receiver import Receiver
from hookfast.cli.demo.scene import ENDPOINTS, EVENT_TYPES, TENANT, DemoEndpoint
from hookfast.storage.keys.new_keys import new_key
from hookfast_client import AsyncHookfast, NotFound

if TYPE_CHECKING:
    from hookfast_client.types import CircuitForm

Found = TypeVar("Found")


@dataclass(slots=True)
class SavedState:
    """The state that one run leaves for the next, in `demo.json` of the home folder, and the key
    alone in `operator.key`, for `hookfast --key-file`. Both have mode 600, because the API shows
    keys and secrets only once."""

    path: Path
    operator_key: str = field(default_factory=new_key)
    receiver_port: int = 0
    tenant_id: str | None = None
    endpoints: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, home: Path) -> SavedState:
        """Return the state of the last run, or a new one."""
        path = home / "demo.json"
        if not path.exists():
            return cls(path)
        return cls(path, **json.loads(path.read_text()))

    def save(self) -> None:
        """Write the files, each completely or not at all."""
        members = asdict(self)
        del members["path"]
        _write(self.path, json.dumps(members, indent=2))
        _write(self.path.with_name("operator.key"), f"{self.operator_key}\n")


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    new.replace(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSetup:
    """The result of the setup: the tenant, and the names of its endpoints by id."""

    tenant_id: str
    names: Mapping[str, str]


async def set_up(hookfast: AsyncHookfast, state: SavedState, receiver: Receiver) -> DemoSetup:
    """Create what does not exist yet; `state.secrets` then has every endpoint's secret."""
    if state.tenant_id is None or await _find(hookfast.tenants.get(state.tenant_id)) is None:
        state.tenant_id = (await hookfast.tenants.create(name=TENANT))["id"]
        state.endpoints.clear()
    for event_type in EVENT_TYPES.values():
        await hookfast.event_types.put(
            event_type.name, description=event_type.description, schema=event_type.schema
        )
    for planned in ENDPOINTS:
        await _set_up_endpoint(hookfast, state, receiver, planned)
        state.save()
    return DemoSetup(
        tenant_id=str(state.tenant_id),
        names={endpoint_id: name for name, endpoint_id in state.endpoints.items()},
    )


async def _set_up_endpoint(
    hookfast: AsyncHookfast, state: SavedState, receiver: Receiver, planned: DemoEndpoint
) -> None:
    url = receiver.url(planned.name)
    endpoint_id = state.endpoints.get(planned.name)
    endpoint = None if endpoint_id is None else await _find(hookfast.endpoints.get(endpoint_id))
    if endpoint is None:
        created = await hookfast.endpoints.create(
            tenant_id=state.tenant_id,
            url=url,
            description=f"{planned.name}: {planned.behaviour}",
            events=planned.events,
            retry_plan=planned.retry_plan,
            circuit=cast("CircuitForm", planned.circuit),
            owner_emails=[f"{planned.name}@demo.example"],
        )
        state.endpoints[planned.name] = created["id"]
        if created["secret"] is not None:
            state.secrets[planned.name] = created["secret"]
        return
    if endpoint["url"] != url:
        await hookfast.endpoints.update(endpoint["id"], url=url)
    if endpoint["state"] == "disabled":  # by its 410 in the last run
        await hookfast.endpoints.enable(endpoint["id"])


async def _find(getting: Awaitable[Found]) -> Found | None:
    """Return what the API has; None if it is not there any more."""
    try:
        return await getting
    except NotFound:
        return None
