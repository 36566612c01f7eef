"""Sources in requests and responses: validation, and conversion to and from the stored row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, Field

from api.context.source_cache import rules_of
from api.forms.networks import check_networks
from api.http.fields import TenantId, Time, example
from api.http.settings_view import OwnedView, view_of
from api.openapi.example_values import IDS
from hookfast.errors import InvalidInput, join_pointer
from hookfast.events.event_type import parse_event_type, parse_pattern
from hookfast.events.operational import reject_reserved
from hookfast.inbox import PROVIDERS, Provider, provider
from hookfast.inbox.source_secrets import MAX_LIVE
from hookfast.resources.source import IdempotencyForm, SourceSettings
from hookfast.storage.tables import Source

MAX_RENAMES = 100

SecretText = Annotated[
    str,
    Field(
        max_length=1_024,
        json_schema_extra={"format": "password"},
        description="The secret as configured at the provider.",
    ),
]


class SourceForm(SourceSettings):
    """The settings of a source, converted from and to its stored row."""

    @classmethod
    def of(cls, source: Source) -> SourceForm:
        """Return the form that would create this source."""
        same = set(cls.model_fields) - {"idempotency"}
        idempotency = source.idempotency
        return cls.model_construct(
            **source.model_dump(include=same),
            idempotency=None if idempotency is None else IdempotencyForm(**idempotency),
        )

    def columns(self, provider_name: str, *, parts: int | None = None) -> dict[str, Any]:
        """Return the columns of `sources` that this form sets, validated and normalised. The event
        types that it names must have exactly `parts` parts (None: any number). Raises InvalidInput
        at the faulty member."""
        bound = provider(provider_name, self.options)
        if (fixed := self.options.get("fixed_type")) is not None:
            parse_event_type(fixed, pointer="/options/fixed_type", parts=parts)
        columns = {name: getattr(self, name) for name in SourceForm.model_fields} | {
            "allowed_networks": check_networks(self.allowed_networks),
            "event_types": _checked(self.event_types, parts=parts),
            "idempotency": None if self.idempotency is None else self.idempotency.model_dump(),
        }
        rules_of(Source.model_construct(**columns), bound)
        return columns


class NewSource(SourceForm):
    """A new source."""

    model_config = example(
        tenant_id=IDS["tenant"],
        name="Acme's repositories",
        provider="github",
        secrets=["5f0c1b7e9a4d4c6e8b2f"],
        event_types={"github.push.received": "code.branch.pushed"},
    )

    tenant_id: TenantId | None = Field(
        None, description="The owner; a tenant's key implies its own tenant."
    )
    provider: str = Field(
        max_length=50,
        description=f"Whose webhooks it receives: {', '.join(PROVIDERS)}.",
        examples=["github"],
    )
    secrets: list[SecretText] | None = Field(
        None,
        min_length=1,
        max_length=MAX_LIVE,
        description="The secrets that the provider signs with, the current one first. If left out "
        "and the provider lets you choose, one is created and shown only in this response.",
    )


class SourceSecretView(BaseModel):
    """Facts about a secret, without the secret itself."""

    created_at: Time
    expires_at: Time | None = Field(description="When it stops verifying; null: when rotated.")


if TYPE_CHECKING:
    _SettingsView = SourceSettings
else:
    _SettingsView = view_of(SourceSettings)


class SourceView(_SettingsView, OwnedView):
    """A source. Its secrets are never shown again."""

    id: str = Field(description="Id of the source, `src_…`.")
    provider: str = Field(description="Whose webhooks it receives, e.g. `github`.")
    url: str = Field(description="The URL to configure at the provider.")
    secrets: list[SourceSecretView] = Field(
        description="The secrets that verify requests, newest first."
    )
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, source: Source, *, public_url: str, **more: Any) -> Self:
        """Return the view of a stored source."""
        return cls(
            **source.model_dump(exclude={"secrets", "deleted_at"}),
            url=f"{public_url}/in/{source.id}",
            secrets=[SourceSecretView.model_validate(secret) for secret in source.secrets],
            **more,
        )


def checked_secrets(bound: Provider, texts: Sequence[str], *, pointer: str) -> list[str]:
    """Return the secrets without duplicates. Raises InvalidInput (`invalid_secret`), which does not
    contain the secret."""
    for index, text in enumerate(texts):
        bound.check_secret(text, pointer=f"{pointer}/{index}")
    return list(dict.fromkeys(texts))


def _checked(renames: dict[str, str], *, parts: int | None) -> dict[str, str]:
    if len(renames) > MAX_RENAMES:
        raise InvalidInput.at("/event_types", f"a source has at most {MAX_RENAMES} renames")
    for pattern, renamed in renames.items():
        at = join_pointer("/event_types", pattern)
        parse_pattern(pattern, pointer=at)
        parse_event_type(renamed, pointer=at, parts=parts)
        reject_reserved(renamed, pointer=at)
    return renames
