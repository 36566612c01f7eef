"""Endpoints in requests and responses: validation, and conversion to and from the stored row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, Field

from api.forms.credentials import (
    CREDENTIALS,
    AuthenticationForm,
    AuthenticationView,
    TlsForm,
    TlsView,
    credential_members,
)
from api.forms.custom_headers import check_headers, masked
from api.forms.networks import check_networks
from api.http.fields import TenantId, Time, example
from api.http.settings_view import OwnedView, view_of
from api.openapi.example_values import IDS
from hookfast.deliveries.retry_plan import DEFAULT_PLAN, PRESETS, parse_plan
from hookfast.endpoints.health import EXPLANATIONS, Health
from hookfast.errors import Conflict, InvalidInput
from hookfast.events.event_type import parse_pattern
from hookfast.owners.notice import one_per_owner
from hookfast.resources.endpoint import CircuitForm, EncryptionForm, EndpointSettings
from hookfast.resources.setting import page_of
from hookfast.resources.subscription import Patterns
from hookfast.sender import OwnAddress, check_url
from hookfast.settings.settings import Settings
from hookfast.signing.encryption import checked_jwk
from hookfast.signing.signature import parse_profiles, secret_key
from hookfast.storage.tables import Endpoint

State = Literal["enabled", "paused", "disabled"]


class EndpointForm(EndpointSettings):
    """The settings of an endpoint, converted from and to its stored row."""

    @classmethod
    def of(cls, endpoint: Endpoint, *, headers: dict[str, str]) -> EndpointForm:
        """Return the form that would create this endpoint; `headers` are its decrypted headers."""
        own = {"url", "circuit", "encryption", "headers", "metadata"}
        encryption = endpoint.encryption
        return cls.model_construct(
            **endpoint.model_dump(include=set(cls.model_fields) - own),
            url=endpoint.url or None,
            circuit=CircuitForm.model_validate(endpoint.circuit),
            encryption=None if encryption is None else EncryptionForm(**encryption),
            headers=headers,
            metadata=endpoint.meta,
        )

    def columns(self, settings: Settings) -> dict[str, Any]:
        """Return the columns of `endpoints` that this form sets, validated and normalised. The
        caller must encrypt `headers`. Raises InvalidInput at the faulty member."""
        plan = parse_plan(self.retry_plan)
        check_headers(self.headers)
        columns = {name: getattr(self, name) for name in EndpointForm.model_fields}
        columns["meta"] = columns.pop("metadata")
        return columns | {
            "url": self._checked_url(settings),
            "owner_emails": one_per_owner(self.owner_emails),
            "verification": self.verification if self.mode == "push" else "none",
            "signatures": [profile.value for profile in parse_profiles(self.signatures)],
            "timeout_seconds": plan.timeout
            if self.timeout_seconds is None
            else self.timeout_seconds,
            "encryption": None if self.encryption is None else _checked_key(self.encryption),
            "allowed_networks": check_networks(self.allowed_networks),
            "circuit": self.circuit.model_dump(exclude_none=True),
        }

    def _checked_url(self, settings: Settings) -> str:
        """Return the normalised URL, or '' for a polled endpoint. Raises InvalidInput, also for
        other settings of requests on a polled endpoint: they would have no effect."""
        if self.mode == "push":
            if self.url is None:
                raise InvalidInput.at(
                    "/url", "is required; an endpoint without a URL needs the mode 'poll'"
                )
            url = check_url(self.url, allow_http=settings.allow_http)
            OwnAddress.of(settings.resolved_public_url).reject(url)
            return url
        for name, unset in _PUSH_ONLY.items():
            if getattr(self, name) not in unset:
                raise _has_no_effect(name)
        return ""


def _has_no_effect(name: str) -> InvalidInput:
    return InvalidInput.at(f"/{name}", "a polled endpoint gets no requests; leave this out")


def _checked_key(given: EncryptionForm) -> dict[str, Any]:
    """Return the value of `encryption` to store. Raises InvalidInput, code `invalid_encryption`."""
    jwk = checked_jwk(given.jwk, alg=given.alg, pointer="/encryption/jwk")
    return given.model_dump() | {"jwk": jwk}


_STORED_DEFAULTS: Mapping[str, Any] = {
    "verification": "none",
    "timeout_seconds": PRESETS[DEFAULT_PLAN].timeout,
}
"""What the columns of a polled endpoint have where it differs from the members' defaults."""

_PUSH_ONLY: Mapping[str, tuple[Any, ...]] = {
    name: (default, _STORED_DEFAULTS.get(name, default))
    for name, field in EndpointSettings.model_fields.items()
    if not page_of(field).for_polled
    for default in (field.get_default(call_default_factory=True),)
}
"""The members that configure requests, each with the values that count as not set."""


class NewEndpoint(EndpointForm):
    """A new endpoint and, with `events`, its first subscription."""

    model_config = example(
        tenant_id=IDS["tenant"],
        url="https://example.com/webhooks",
        description="Acme's accounting",
        events=["order.invoice.paid", "order.refund.*"],
        owner_emails=["ops@example.com"],
    )

    tenant_id: TenantId | None = Field(
        None, description="The owner; a tenant's key implies its own tenant."
    )
    events: Patterns = Field(default_factory=list)
    authentication: AuthenticationForm | None = Field(
        None,
        description="With which requests authenticate themselves to the receiver; default: only "
        "by their signature.",
    )
    tls: TlsForm | None = Field(None, description="For mutual TLS, or a private authority.")
    secret: str | None = Field(
        None,
        repr=False,
        max_length=128,
        json_schema_extra={"format": "password"},
        description="The secret that signs, for a receiver that has one already: `whsec_` and the "
        "base64 of 24 to 64 bytes, such as an endpoint's of Svix. Default: a new one.",
    )

    def columns(self, settings: Settings) -> dict[str, Any]:
        if self.mode == "poll":
            for name in (*CREDENTIALS, "secret"):
                if getattr(self, name) is not None:
                    raise _has_no_effect(name)
        if self.secret is not None:
            secret_key(self.secret)
        return super().columns(settings)


class SecretView(BaseModel):
    """Facts about a secret, without the secret itself."""

    kind: Literal["hmac", "ed25519"] = Field("hmac", description="Which signatures it makes.")
    public_key: str | None = Field(
        None,
        validation_alias="public",
        description="The public part of an ed25519 key, `whpk_…`; it verifies `v1a` signatures.",
    )
    created_at: Time
    expires_at: Time | None = Field(description="When it stops signing; null: when it is rotated.")


if TYPE_CHECKING:
    _SettingsView = EndpointSettings
else:
    _SettingsView = view_of(EndpointSettings)


class EndpointView(_SettingsView, OwnedView):
    """An endpoint. Its secrets are shown when they are created, and never again."""

    id: str = Field(description="Id of the endpoint, `ep_…`.")
    url: str | None = Field(
        description="The URL that events are sent to, normalised; null with the mode `poll`."
    )
    timeout_seconds: float = Field(description="Total time for one attempt.")
    headers: dict[str, str] = Field(description="Names of headers, with masked values.")
    circuit: dict[str, Any] = Field(  # type: ignore[assignment]  # only the members that are set
        description=EndpointSettings.model_fields["circuit"].description
    )
    authentication: AuthenticationView | None = Field(
        description="Set by `PUT /v1/endpoints/{endpoint_id}/authentication`."
    )
    tls: TlsView | None = Field(description="Set by `PUT /v1/endpoints/{endpoint_id}/tls`.")
    secrets: list[SecretView] = Field(description="The secrets that sign, newest first.")
    state: str = Field(description="`enabled`, `paused` or `disabled`.")
    state_reason: str | None = Field(description="Why it is not enabled; null if it is.")
    health: Health = Field(
        description="One word for how it is doing, derived from its state, its circuit and its "
        "failures. "
        + " ".join(f"`{health.value}`: {text}" for health, text in EXPLANATIONS.items())
    )
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, endpoint: Endpoint, *, health: Health, **more: Any) -> Self:
        """Return the view of a stored endpoint with this health."""
        other = {"secrets", "credentials", "deleted_at", "meta", "headers", "url"}
        shown = endpoint.model_dump(exclude=other)
        return cls(
            **shown,
            url=endpoint.url or None,
            headers=masked(endpoint.headers),
            **credential_members(endpoint.credentials),
            secrets=[SecretView.model_validate(secret) for secret in endpoint.secrets],
            metadata=endpoint.meta,
            health=health,
            **more,
        )


def require_push(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint if requests are sent to it. Raises Conflict (`endpoint_is_polled`)."""
    if endpoint.mode == "poll":
        raise Conflict(
            "This endpoint is polled: no requests are sent to it. "
            f"`GET /v1/endpoints/{endpoint.id}/poll` returns its events.",
            code="endpoint_is_polled",
        )
    return endpoint


def check_patterns(patterns: list[str], *, pointer: str = "/events") -> list[str]:
    """Return the patterns without duplicates. Raises InvalidInput, code `invalid_pattern`."""
    return list(
        dict.fromkeys(
            parse_pattern(text, pointer=f"{pointer}/{index}") for index, text in enumerate(patterns)
        )
    )
