"""A source as it is sent, checked, stored and shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field

from api.answers.json_pointer import join
from api.forms.networks import check_network
from api.http.fields import Input, Name, TenantId, Time
from api.process.source_cache import rules_of
from hookfast.errors import InvalidInput
from hookfast.events.event_type import parse_event_type, parse_pattern
from hookfast.events.operational import refuse_reserved
from hookfast.inbox import PROVIDERS, Provider, provider
from hookfast.inbox.source_secrets import MAX_LIVE
from hookfast.storage.tables import Source

MAX_OVERRIDES = 100
MAX_WINDOW_SECONDS = 30 * 86_400

SecretText = Annotated[
    str,
    Field(
        max_length=1_024,
        json_schema_extra={"format": "password"},
        description="As it is set at the provider.",
    ),
]


class IdempotencyForm(Input):
    """What makes two events one business fact, whatever their delivery ids."""

    expression: str | dict[str, str] = Field(
        "suggested",
        description="A JMESPath expression over the payload, an object of event type patterns and "
        "expressions, or `suggested`: the provider's. An event for which it gives nothing is a "
        "fact of its own. Names are the provider's, before `event_types`.",
        examples=["suggested", "[repository.full_name, ref, after]"],
    )
    window_seconds: int = Field(
        86_400,
        ge=1,
        le=MAX_WINDOW_SECONDS,
        description="How long after the first event others of the same fact are suppressed.",
    )


class SourceForm(Input):
    """What can be set, and changed later."""

    name: Name
    options: dict[str, Any] = Field(
        default_factory=dict, description="The provider's own; see docs/receiving.md."
    )
    allowed_networks: list[str] = Field(
        default_factory=list,
        max_length=200,
        description="Networks (CIDR) that may send; default: any, for the signature decides.",
        examples=[["192.30.252.0/22"]],
    )
    event_types: dict[str, str] = Field(
        default_factory=dict,
        description="Other names: the provider's event types, or patterns of them, and what to "
        "emit instead. Of several that match the narrowest counts.",
        examples=[{"github.push.received": "code.branch.pushed"}],
    )
    id_expression: str | None = Field(
        None,
        description="A JMESPath expression over the payload that gives the delivery id, where the "
        "provider gives none. Without either, the body's hash is its id.",
        examples=["id"],
    )
    idempotency: IdempotencyForm | None = Field(
        None, description="Emit each business fact once; default: every delivery is its own."
    )
    active: bool = Field(True, description="Off: requests get 404.")

    @classmethod
    def of(cls, source: Source) -> SourceForm:
        """The form that would make this source."""
        own = set(cls.model_fields) - {"idempotency"}
        fact = source.idempotency
        return cls.model_construct(
            **source.model_dump(include=own),
            idempotency=None if fact is None else IdempotencyForm(**fact),
        )

    def columns(self, provider_name: str) -> dict[str, Any]:
        """The columns of `sources` this form sets, checked and in their normal form.

        Raises InvalidInput, pointing at the member that is wrong.
        """
        bound = provider(provider_name, self.options)
        fact = None if self.idempotency is None else self.idempotency.model_dump()
        columns: dict[str, Any] = {
            "name": self.name,
            "options": self.options,
            "allowed_networks": [
                check_network(text, pointer=f"/allowed_networks/{index}")
                for index, text in enumerate(self.allowed_networks)
            ],
            "event_types": _checked(self.event_types),
            "id_expression": self.id_expression,
            "idempotency": fact,
            "active": self.active,
        }
        rules_of(Source.model_construct(**columns), bound)
        return columns


class NewSource(SourceForm):
    """A new source."""

    tenant_id: TenantId | None = Field(
        None, description="Its owner; a tenant's key implies its own tenant."
    )
    provider: str = Field(
        max_length=50, description=f"{', '.join(PROVIDERS)}.", examples=["github"]
    )
    secrets: list[SecretText] | None = Field(
        None,
        min_length=1,
        max_length=MAX_LIVE,
        description="What the provider signs with, the current one first. Left out where the "
        "provider lets you choose: one is made, and shown this once.",
    )


class SourceSecretView(BaseModel):
    """That there is a secret; never the secret."""

    created_at: Time
    expires_at: Time | None = Field(description="Until when it verifies; null: until rotated.")


class SourceView(BaseModel):
    """A source. Its secrets are never shown again."""

    id: str
    tenant_id: str
    name: str
    provider: str
    url: str = Field(description="Where the provider is to send.")
    secrets: list[SourceSecretView] = Field(description="What verifies, newest first.")
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
        """What is shown of a stored source."""
        return cls(
            **source.model_dump(exclude={"secrets", "deleted_at"}),
            url=f"{public_url}/in/{source.id}",
            secrets=[SourceSecretView.model_validate(secret) for secret in source.secrets],
            **more,
        )


def checked_secrets(bound: Provider, texts: Sequence[str], *, pointer: str) -> list[str]:
    """The secrets, each once. Raises InvalidInput (`invalid_secret`), without the secret."""
    for index, text in enumerate(texts):
        bound.check_secret(text, pointer=f"{pointer}/{index}")
    return list(dict.fromkeys(texts))


def _checked(overrides: dict[str, str]) -> dict[str, str]:
    if len(overrides) > MAX_OVERRIDES:
        raise InvalidInput.at("/event_types", f"a source has at most {MAX_OVERRIDES} other names")
    for given, wanted in overrides.items():
        at = join("/event_types", given)
        parse_pattern(given, pointer=at)
        parse_event_type(wanted, pointer=at)
        refuse_reserved(wanted, pointer=at)
    return overrides
