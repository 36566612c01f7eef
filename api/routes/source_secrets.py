"""Rotation of a source's secret, with an overlap in which the old and the new secret verify."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from api.access.audit import Audit
from api.access.authentication import Writer
from api.access.ownership import found, owned
from api.context.context import AppContext
from api.forms.source import SecretText
from api.http.fields import Input, SourcePath, example
from api.http.routing import router
from api.routes.endpoint_secrets import DEFAULT_OVERLAP_SECONDS, MAX_OVERLAP_SECONDS
from api.routes.sources import CreatedSource
from hookfast.errors import InvalidInput
from hookfast.inbox import provider
from hookfast.inbox.source_secrets import new_secret, rotated
from hookfast.storage.audit.audited import done, facts
from hookfast.storage.inbox import sources

routes = router("Sources")


class SourceRotationForm(Input):
    """The new secret, and how long the old one stays valid."""

    model_config = example(secret="5f0c1b7e9a4d4c6e8b2f", overlap_seconds=3_600)  # noqa: S106 - an example

    secret: SecretText | None = Field(
        None,
        description="If left out and the provider lets you choose, one is created and shown only "
        "in this response.",
    )
    overlap_seconds: int = Field(
        DEFAULT_OVERLAP_SECONDS,
        ge=0,
        le=MAX_OVERLAP_SECONDS,
        description="How long the old secrets continue to verify. 0 ends them now, for example "
        "after a leak; within two seconds if several processes serve the API.",
    )


@routes.post("/sources/{source_id}/rotate-secret", summary="Rotate a source's secret")
async def rotate_source_secret(
    source_id: SourcePath,
    context: AppContext,
    audit: Audit,
    principal: Writer,
    form: SourceRotationForm | None = None,
) -> CreatedSource:
    """Requests signed with the new secret are accepted at once, and those signed with an old one
    until it expires. At most five secrets verify at once; otherwise the response is 409
    `too_many_secrets`."""
    form = form or SourceRotationForm()
    async with context.database.write() as connection:
        source = owned(await sources.get(connection, source_id, lock=True), principal)
        bound = provider(source.provider, source.options)
        if form.secret is None and not bound.lets_choose_secret:
            raise InvalidInput.at(
                "/secret", f"is required: {bound.name} creates the secret", code="invalid_secret"
            )
        generated = new_secret() if form.secret is None else None
        text = form.secret or generated or ""
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
        entry = done("source.rotate_secret", source, before=before, after=facts(source))
        await audit.record(connection, entry)
    context.sources.forget(source_id)
    return CreatedSource.of(
        source, public_url=context.settings.resolved_public_url, secret=generated
    )
