"""Rotating a source's secret, with a time in which the old and the new one both verify."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from api.access.audit import Audit
from api.access.authentication import Writer
from api.access.ownership import found, owned
from api.forms.source import SecretText
from api.http.fields import Input, SourcePath
from api.http.routing import router
from api.process.context import AppContext
from api.routes.endpoint_secrets import DEFAULT_OVERLAP_SECONDS, MAX_OVERLAP_SECONDS
from api.routes.sources import CreatedSource
from hookfast.errors import InvalidInput
from hookfast.inbox import provider
from hookfast.inbox.source_secrets import new_secret, rotated
from hookfast.storage.audit.audited import done, facts
from hookfast.storage.inbox import sources

routes = router("Sources")


class SourceRotationForm(Input):
    """The new secret, and how long the old one is still right."""

    secret: SecretText | None = Field(
        None,
        description="Left out where the provider lets you choose: one is made, and shown once.",
    )
    overlap_seconds: int = Field(
        DEFAULT_OVERLAP_SECONDS,
        ge=0,
        le=MAX_OVERLAP_SECONDS,
        description="For how long the old secrets verify too. 0: they end now, as a leaked one "
        "must; within two seconds where several processes serve the API.",
    )


@routes.post("/sources/{source_id}/rotate-secret", summary="Rotate a source's secret")
async def rotate_source_secret(
    source_id: SourcePath,
    context: AppContext,
    audit: Audit,
    principal: Writer,
    form: SourceRotationForm | None = None,
) -> CreatedSource:
    """Requests signed with the new secret are taken at once, and those signed with an old one until
    that expires. At most five secrets verify at once: 409 `too_many_secrets`."""
    form = form or SourceRotationForm()
    async with context.database.write() as connection:
        source = owned(await sources.get(connection, source_id, lock=True), principal)
        bound = provider(source.provider, source.options)
        if form.secret is None and not bound.lets_choose_secret:
            raise InvalidInput.at(
                "/secret", f"{bound.name} makes the secret itself; give it", code="invalid_secret"
            )
        made = new_secret() if form.secret is None else None
        text = form.secret or made or ""
        bound.check_secret(text, pointer="/secret")
        now = context.clock()
        secrets = rotated(
            source.secrets,
            text,
            context.keyring,
            source_id=source_id,
            overlap=timedelta(seconds=form.overlap_seconds),
            now=now,
        )
        before = facts(source)
        await sources.change(connection, source_id, {"secrets": secrets, "updated_at": now})
        source = found(await sources.get(connection, source_id))
        told = done("source.rotate_secret", source, before=before, after=facts(source))
        await audit.record(connection, told)
    context.sources.forget(source_id)
    return CreatedSource.of(source, public_url=context.settings.resolved_public_url, secret=made)
