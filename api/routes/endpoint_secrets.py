"""Rotation of an endpoint's secret, with an overlap in which the old and the new secret sign."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from api.access.audit import Audit
from api.access.authentication import Writer
from api.access.ownership import found, owned
from api.context.context import AppContext
from api.forms.endpoint import EndpointView, require_push
from api.http.fields import EndpointPath, Input, example
from api.http.routing import router
from hookfast.endpoints.secrets import rotate
from hookfast.storage.audit.audited import done, facts
from hookfast.storage.endpoints import derived_health, endpoints

routes = router("Signatures")

DEFAULT_OVERLAP_SECONDS = 86_400
MAX_OVERLAP_SECONDS = 7 * 86_400


class RotationForm(Input):
    """How long receivers have to switch to the new secret."""

    model_config = example(overlap_seconds=3_600)

    overlap_seconds: int = Field(
        DEFAULT_OVERLAP_SECONDS,
        ge=0,
        le=MAX_OVERLAP_SECONDS,
        description="How long the old secrets continue to sign. 0 ends them now, for example after "
        "a leak.",
    )


class RotatedEndpoint(EndpointView):
    """The endpoint with its new secret, which only this response shows."""

    secret: str = Field(description="`whsec_` and the base64 of the signing key.")


@routes.post("/endpoints/{endpoint_id}/rotate-secret", summary="Rotate an endpoint's secret")
async def rotate_endpoint_secret(
    endpoint_id: EndpointPath,
    context: AppContext,
    audit: Audit,
    principal: Writer,
    form: RotationForm | None = None,
) -> RotatedEndpoint:
    """Deliveries are signed with the new secret at once, and also with the old one until it
    expires, so that a receiver can verify them with either. An endpoint with the profile
    `standard-ed25519` also gets a new key, whose public part is in `secrets`. At most five secrets
    sign at once; otherwise the response is 409 `too_many_secrets`."""
    overlap = timedelta(seconds=(form or RotationForm()).overlap_seconds)
    async with context.database.write() as connection:
        endpoint = require_push(
            owned(await endpoints.get(connection, endpoint_id, lock=True), principal)
        )
        now = context.clock()
        rotation = rotate(
            endpoint.secrets, context.keyring, endpoint_id=endpoint_id, overlap=overlap, now=now
        )
        await endpoints.change(
            connection,
            endpoint_id,
            seen=endpoint.updated_at,
            values={"secrets": rotation.secrets, "updated_at": now},
        )
        before = facts(endpoint)
        endpoint = found(await endpoints.get(connection, endpoint_id))
        entry = done("endpoint.rotate_secret", endpoint, before=before, after=facts(endpoint))
        await audit.record(connection, entry)
        health = await derived_health.read_one(connection, endpoint)
    return RotatedEndpoint.of(endpoint, health=health, secret=rotation.secret)
