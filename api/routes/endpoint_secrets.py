"""Rotating an endpoint's secret, with a time in which the old and the new one both sign."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from api.access.audit import Audit
from api.access.authentication import Writer
from api.access.ownership import found, owned
from api.forms.endpoint import EndpointView, pushes
from api.http.fields import EndpointPath, Input
from api.http.routing import router
from api.process.context import AppContext
from hookfast.endpoints.secrets import rotated
from hookfast.storage.audit.audited import done, facts
from hookfast.storage.endpoints import endpoints

routes = router("Signatures")

DEFAULT_OVERLAP_SECONDS = 86_400
MAX_OVERLAP_SECONDS = 7 * 86_400


class RotationForm(Input):
    """How long receivers have to change over."""

    overlap_seconds: int = Field(
        DEFAULT_OVERLAP_SECONDS,
        ge=0,
        le=MAX_OVERLAP_SECONDS,
        description="For how long the old secrets sign too. 0: they end now, as a leaked one must.",
    )


class RotatedEndpoint(EndpointView):
    """The endpoint with its new secret, which is shown this once."""

    secret: str = Field(description="`whsec_` and the base64 of the signing key.")


@routes.post("/endpoints/{endpoint_id}/rotate-secret", summary="Rotate an endpoint's secret")
async def rotate_endpoint_secret(
    endpoint_id: EndpointPath,
    context: AppContext,
    audit: Audit,
    principal: Writer,
    form: RotationForm | None = None,
) -> RotatedEndpoint:
    """Deliveries are signed with the new secret at once, and with the old one too until it
    expires; a receiver that knows either verifies them. An endpoint with the profile
    `standard-ed25519` gets a new key for it as well: its public part is in `secrets`. At
    most five secrets sign at once: 409 `too_many_secrets`."""
    overlap = timedelta(seconds=(form or RotationForm()).overlap_seconds)
    async with context.database.write() as connection:
        endpoint = pushes(owned(await endpoints.get(connection, endpoint_id, lock=True), principal))
        now = context.clock()
        rotation = rotated(
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
        told = done("endpoint.rotate_secret", endpoint, before=before, after=facts(endpoint))
        await audit.record(connection, told)
    return RotatedEndpoint.of(endpoint, secret=rotation.secret)
