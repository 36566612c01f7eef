"""Sources in requests and responses: validation, and conversion to and from the stored row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from api.answers.json_pointer import join
from api.context.source_cache import rules_of
from api.forms.networks import check_networks
from api.http.fields import Input, Name, TenantId, Time, example
from api.openapi.example_values import IDS
from api.openapi.glossary import described_as_in
from hookfast.errors import InvalidInput
from hookfast.events.event_type import parse_event_type, parse_pattern
from hookfast.events.operational import reject_reserved
from hookfast.inbox import PROVIDERS, Provider, provider
from hookfast.inbox.source_secrets import MAX_LIVE
from hookfast.storage.tables import Source

MAX_RENAMES = 100
MAX_WINDOW_SECONDS = 30 * 86_400

SecretText = Annotated[
    str,
    Field(
        max_length=1_024,
        json_schema_extra={"format": "password"},
        description="The secret as configured at the provider.",
    ),
]


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


class SourceForm(Input):
    """The settings of a source, which can be changed later."""

    name: Name
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the provider; see docs/receiving.md."
    )
    allowed_networks: list[str] = Field(
        default_factory=list,
        max_length=200,
        description="Networks (CIDR) that may send requests; default: any, since requests are "
        "signed.",
        examples=[["192.30.252.0/22"]],
    )
    event_types: dict[str, str] = Field(
        default_factory=dict,
        description="Renames: the provider's event types, or patterns of them, and the event type "
        "to emit instead. If several match, the narrowest applies.",
        examples=[{"github.push.received": "code.branch.pushed"}],
    )
    id_expression: str | None = Field(
        None,
        description="A JMESPath expression over the payload for the delivery id, if the provider "
        "sends none. Without either, the body's hash is the id.",
        examples=["id"],
    )
    idempotency: IdempotencyForm | None = Field(
        None, description="Emit each business fact once; default: emit every delivery."
    )
    active: bool = Field(True, description="If false, requests get 404.")

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
        columns: dict[str, Any] = {
            "name": self.name,
            "options": self.options,
            "allowed_networks": check_networks(self.allowed_networks),
            "event_types": _checked(self.event_types, parts=parts),
            "id_expression": self.id_expression,
            "idempotency": None if self.idempotency is None else self.idempotency.model_dump(),
            "active": self.active,
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


class SourceView(BaseModel):
    """A source. Its secrets are never shown again."""

    model_config = ConfigDict(json_schema_extra=described_as_in(SourceForm))

    id: str = Field(description="Id of the source, `src_…`.")
    tenant_id: str
    name: str
    provider: str = Field(description="Whose webhooks it receives, e.g. `github`.")
    url: str = Field(description="The URL to configure at the provider.")
    secrets: list[SourceSecretView] = Field(
        description="The secrets that verify requests, newest first."
    )
    options: dict[str, Any]
    allowed_networks: list[str]
    event_types: dict[str, str]
    id_expression: str | None
    idempotency: IdempotencyForm | None
    active: bool
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
        at = join("/event_types", pattern)
        parse_pattern(pattern, pointer=at)
        parse_event_type(renamed, pointer=at, parts=parts)
        reject_reserved(renamed, pointer=at)
    return renames
