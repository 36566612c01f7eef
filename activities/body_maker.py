"""Makes the body that an attempt sends: as it is stored, mapped, thin or encrypted."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext

from hookfast.deliveries.mapping import MAX_BYTES, MappingFailed, mapped_body
from hookfast.errors import Misconfigured
from hookfast.events.envelope import thin_body
from hookfast.signing.encryption import encrypted_size
from hookfast.storage.deliveries.bodies import LARGE_BYTES, AttemptBodies, AttemptRoom
from hookfast.storage.deliveries.outgoing import Outgoing


class BodyMaker:
    """Makes the bodies of a worker process's attempts, in room that it claims for them."""

    def __init__(self, bodies: AttemptBodies, *, public_url: str) -> None:
        self._bodies = bodies
        self._public_url = public_url
        self._preparing = asyncio.Lock()

    def room(
        self, outgoing: Outgoing, *, within: float
    ) -> AbstractAsyncContextManager[AttemptRoom]:
        """Room for the stored body and for what is made of it, while the block lasts. Entering
        raises NoRoom if there is none within so many seconds."""
        stored, endpoint = outgoing.stored_body, outgoing.endpoint
        return self._bodies.room(
            stored,
            *(f"tenant:{endpoint.tenant_id}", f"endpoint:{endpoint.endpoint_id}"),
            more=0 if stored is None else _bytes_made(outgoing, stored.size),
            within=within,
        )

    async def make(self, outgoing: Outgoing, room: AttemptRoom) -> None:
        """Make the body, except for its encryption, of the stored one in `room`. Raises
        MappingFailed, Misconfigured, and NoRoom if the body is larger than expected."""
        event = outgoing.event
        if outgoing.raw is not None:
            if outgoing.raw.damaged:
                raise Misconfigured("the received request to forward is damaged")
        elif outgoing.row.payload == "mapped":
            if outgoing.mapping is None:  # an older database was restored
                raise MappingFailed("the mapping is missing")
            async with self.alone_if_large(room.body):
                # it may take long enough to keep the event loop from serving other requests
                made = await asyncio.to_thread(mapped_body, outgoing.mapping, room.body)
            encrypts = outgoing.endpoint.encryption is not None
            await room.replace(made, more=encrypted_size(len(made)) if encrypts else 0)
        elif outgoing.row.payload == "thin":
            room.body = thin_body(
                event_id=event.event_id,
                event_type=outgoing.row.event_type,
                created_at=event.created_at,
                tenant_id=event.tenant_id,
                url=f"{self._public_url}/v1/events/{event.event_id}",
            )

    def alone_if_large(self, body: bytes) -> AbstractAsyncContextManager[object]:
        """The turn to make something of this body. Parsed or encrypted, a large one takes many
        times its size, which no claim counts."""
        return self._preparing if len(body) > LARGE_BYTES else nullcontext()


def _bytes_made(outgoing: Outgoing, size: int) -> int:
    """The most bytes that are made of a stored body of this size, to be sent in its place."""
    mapped = max(MAX_BYTES, size) if outgoing.row.payload == "mapped" else 0
    if outgoing.endpoint.encryption is None:
        return mapped
    return mapped + encrypted_size(mapped or size)
