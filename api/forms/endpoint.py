"""Endpoints in requests and responses: validation, and conversion to and from the stored row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

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
from api.http.fields import Description, Email, Input, Metadata, TenantId, Time, example
from api.openapi.example_values import IDS
from api.openapi.glossary import described_as_in
from hookfast.deliveries.retry_plan import DEFAULT_PLAN, PRESETS, parse_plan
from hookfast.endpoints.health import EXPLANATIONS, Health
from hookfast.errors import Conflict, InvalidInput
from hookfast.events.event_type import parse_pattern
from hookfast.owners.notice import one_per_owner
from hookfast.sender import OwnAddress, check_url
from hookfast.settings.settings import Settings
from hookfast.signing.encryption import Algorithm, ContentEncryption, checked_jwk
from hookfast.signing.signature import DEFAULT_PROFILES, Profile, parse_profiles, secret_key
from hookfast.storage.tables import Endpoint
from hookfast.strict_json.numbers import with_floats

MAX_PATTERNS = 50
"""The maximum of one subscription: each pattern is one request when the receiver is verified."""

Mode = Literal["push", "poll"]
Verification = Literal["header", "query", "none"]
State = Literal["enabled", "paused", "disabled"]
Seconds = Annotated[float, Field(ge=1, le=86_400)]
Patterns = Annotated[
    list[str],
    Field(
        max_length=MAX_PATTERNS,
        description="Event types or patterns, e.g. `order.invoice.paid`, `order.*.paid`, "
        "`order.**`, `**`.",
        examples=[["order.invoice.paid", "order.refund.*"]],
    ),
]


class CircuitForm(Input):
    """When deliveries to a failing endpoint are held. Members left out keep their defaults."""

    failure_threshold: int | None = Field(
        None, ge=1, le=1_000, description="Consecutive failures that open the circuit."
    )
    min_span_seconds: float | None = Field(
        None, ge=0, le=86_400, description="Shortest time those failures must span."
    )
    probe_delays_seconds: list[Seconds] | None = Field(
        None, min_length=1, max_length=100, description="Waits between probes; the last repeats."
    )
    disable_after_seconds: float | None = Field(
        None, ge=60, le=2_592_000, description="Time without a success that disables the endpoint."
    )


class EncryptionForm(Input):
    """Encrypt deliveries to this key (compact JWE, sent as `application/jose`). A merge patch
    merges the members of the key too: to change the key, send all of them, with `kid` or null."""

    jwk: dict[str, Any] = Field(
        description="The receiver's public key (RFC 7517): RSA of at least 2048 bits, EC on P-256, "
        "P-384 or P-521, or OKP on X25519. Its `kid`, if any, is in the header of the JWE.",
        examples=[
            {"kty": "OKP", "crv": "X25519", "x": "3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08"}
        ],
    )
    alg: Algorithm = Field(description="`RSA-OAEP-256` for RSA keys, else `ECDH-ES+A256KW`.")
    enc: ContentEncryption = Field("A256GCM", description="The cipher of the body.")

    def column(self) -> dict[str, Any]:
        """Return the value to store. Raises InvalidInput, code `invalid_encryption`."""
        jwk = checked_jwk(self.jwk, alg=self.alg, pointer="/encryption/jwk")
        return {"jwk": jwk, "alg": self.alg, "enc": self.enc}


class EndpointForm(Input):
    """The settings of an endpoint, which can be changed later, except for the mode."""

    mode: Mode = Field(
        "push",
        description="`push` sends each event to `url`. `poll` sends nothing and creates no "
        "deliveries: a consumer that cannot receive requests fetches the events from "
        "`GET /v1/endpoints/{endpoint_id}/poll`. The mode cannot be changed.",
    )
    url: str | None = Field(
        None,
        description="The URL that events are sent to: https, no credentials, no fragment. Required "
        "with the mode `push`; not allowed with `poll`, like all other settings of requests.",
        examples=["https://example.com/webhooks"],
    )
    description: Description = ""
    owner_emails: list[Email] = Field(
        default_factory=list,
        max_length=20,
        description="Addresses that get mail when the endpoint fails, recovers or is disabled.",
        examples=[["ops@example.com"]],
    )
    verification: Verification = Field(
        "header",
        description="How the receiver confirms that it wants the events: it returns the header "
        "`X-Hook-Challenge`, or the query parameter `challenge` as its body; `none` if the "
        "server's settings allow it.",
    )
    signatures: list[str] = Field(
        default_factory=lambda: [profile.value for profile in DEFAULT_PROFILES],
        max_length=10,
        description="Signature profiles; each adds its headers to every delivery: "
        f"{', '.join(Profile)}. At most one of `nonce`, `body` and `rsa`.",
    )
    signature_hash: Literal["sha1", "sha256", "sha512"] = Field(
        "sha256", description="The hash of the profile `hook`."
    )
    retry_plan: Annotated[str | dict[str, Any], AfterValidator(with_floats)] = Field(
        DEFAULT_PLAN,
        description=f"A preset ({', '.join(PRESETS)}) or an object with `delays_seconds`, "
        "`jitter` and `retry_on`.",
        examples=["hourly", {"delays_seconds": [1, 5, 30], "jitter": 0.1, "retry_on": "all"}],
    )
    timeout_seconds: float | None = Field(
        None, ge=1, le=30, description="Total time for one attempt; default: the retry plan's."
    )
    rate_limit_per_second: float | None = Field(
        None, gt=0, le=10_000, description="Maximum deliveries per second; default: no limit."
    )
    max_in_flight: int | None = Field(
        None, ge=1, le=1_000, description="Maximum requests in progress; default: no limit."
    )
    ordered: bool = Field(
        False,
        description="Send events with the same `ordering_key` one after the other, each when the "
        "one before it is done, for every subscription of this endpoint.",
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        description="Headers added to every delivery. Responses show only their names.",
        examples=[{"Authorization": "Basic Zm9vOmJhcg=="}],
    )
    encryption: EncryptionForm | None = Field(
        None, description="Encrypt deliveries to the receiver's key; default: not encrypted."
    )
    allowed_networks: list[str] = Field(
        default_factory=list,
        max_length=50,
        description="Networks (CIDR) that the URL must resolve to; default: any public address.",
        examples=[["203.0.113.0/24"]],
    )
    circuit: CircuitForm = Field(
        default_factory=CircuitForm,
        description="When deliveries are held because the endpoint fails, and when it is disabled.",
    )
    metadata: Metadata = Field(default_factory=dict)

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
        timeout = plan.timeout if self.timeout_seconds is None else self.timeout_seconds
        return {
            "mode": self.mode,
            "url": self._checked_url(settings),
            "description": self.description,
            "owner_emails": one_per_owner(self.owner_emails),
            "verification": self.verification if self.mode == "push" else "none",
            "signatures": [profile.value for profile in parse_profiles(self.signatures)],
            "signature_hash": self.signature_hash,
            "retry_plan": self.retry_plan,
            "timeout_seconds": timeout,
            "rate_limit_per_second": self.rate_limit_per_second,
            "max_in_flight": self.max_in_flight,
            "ordered": self.ordered,
            "headers": self.headers,
            "encryption": None if self.encryption is None else self.encryption.column(),
            "allowed_networks": check_networks(self.allowed_networks),
            "circuit": self.circuit.model_dump(exclude_none=True),
            "meta": self.metadata,
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


_PUSH_ONLY: Mapping[str, tuple[Any, ...]] = {
    "url": (None,),
    "owner_emails": ([],),
    "verification": ("header", "none"),
    "signatures": ([profile.value for profile in DEFAULT_PROFILES],),
    "signature_hash": ("sha256",),
    "retry_plan": (DEFAULT_PLAN,),
    "timeout_seconds": (None, PRESETS[DEFAULT_PLAN].timeout),
    "rate_limit_per_second": (None,),
    "max_in_flight": (None,),
    "ordered": (False,),
    "headers": ({},),
    "encryption": (None,),
    "allowed_networks": ([],),
    "circuit": (CircuitForm(),),
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


class EndpointView(BaseModel):
    """An endpoint. Its secrets are shown when they are created, and never again."""

    model_config = ConfigDict(json_schema_extra=described_as_in(EndpointForm))

    id: str = Field(description="Id of the endpoint, `ep_…`.")
    tenant_id: str
    mode: Mode
    url: str | None = Field(
        description="The URL that events are sent to, normalised; null with the mode `poll`."
    )
    description: str
    owner_emails: list[str]
    verification: Verification
    signatures: list[str]
    signature_hash: str
    retry_plan: str | dict[str, Any]
    timeout_seconds: float = Field(description="Total time for one attempt.")
    rate_limit_per_second: float | None
    max_in_flight: int | None
    ordered: bool
    headers: dict[str, str] = Field(description="Names of headers, with masked values.")
    authentication: AuthenticationView | None = Field(
        description="Set by `PUT /v1/endpoints/{endpoint_id}/authentication`."
    )
    tls: TlsView | None = Field(description="Set by `PUT /v1/endpoints/{endpoint_id}/tls`.")
    encryption: EncryptionForm | None
    secrets: list[SecretView] = Field(description="The secrets that sign, newest first.")
    allowed_networks: list[str]
    circuit: dict[str, Any]
    metadata: dict[str, Any]
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
