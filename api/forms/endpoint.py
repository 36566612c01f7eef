"""An endpoint as it is sent, checked, stored and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from api.forms.custom_headers import check_headers, masked
from api.forms.networks import check_network
from api.http.fields import Description, Email, Input, Metadata, TenantId, Time
from hookfast.deliveries.retry_plan import DEFAULT_PLAN, PRESETS, parse_plan
from hookfast.errors import Conflict, InvalidInput
from hookfast.events.event_type import parse_pattern
from hookfast.owners.notice import one_per_owner
from hookfast.sender import check_url
from hookfast.settings.settings import Settings
from hookfast.signing.encryption import Algorithm, ContentEncryption, checked_jwk
from hookfast.signing.signature import DEFAULT_PROFILES, Profile, parse_profiles
from hookfast.storage.tables import Endpoint

MAX_PATTERNS = 50
"""Patterns of one subscription; each one is a question when the receiver is verified."""

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
    """When deliveries to a failing endpoint are held; what is left out keeps the default."""

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
    """Deliveries are encrypted to this key (JWE, compact), as `application/jose`. A merge patch
    merges the key's members too: to change the key send all of them, and `kid` or null."""

    jwk: dict[str, Any] = Field(
        description="The receiver's public key (RFC 7517): RSA of at least 2048 bits, EC on P-256, "
        "P-384 or P-521, or OKP on X25519. Its `kid`, if any, is in the header of the JWE.",
        examples=[
            {"kty": "OKP", "crv": "X25519", "x": "3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08"}
        ],
    )
    alg: Algorithm = Field(description="`RSA-OAEP-256` for RSA keys, else `ECDH-ES+A256KW`.")
    enc: ContentEncryption = "A256GCM"

    def column(self) -> dict[str, Any]:
        """What is stored. Raises InvalidInput, code `invalid_encryption`."""
        jwk = checked_jwk(self.jwk, alg=self.alg, pointer="/encryption/jwk")
        return {"jwk": jwk, "alg": self.alg, "enc": self.enc}


class EndpointForm(Input):
    """What can be set, and changed later."""

    mode: Mode = Field(
        "push",
        description="`push` sends each event to `url`. `poll` sends nothing and makes no "
        "deliveries: whoever cannot receive fetches from `GET /v1/endpoints/{endpoint_id}/poll`. "
        "It stays what it is.",
    )
    url: str | None = Field(
        None,
        description="Where events are sent: https, no credentials, no fragment. Needed with the "
        "mode `push`; with `poll` there is none, nor anything else that is about requests.",
        examples=["https://example.com/webhooks"],
    )
    description: Description = ""
    owner_emails: list[Email] = Field(
        default_factory=list,
        max_length=20,
        description="Who gets mail when the endpoint fails, recovers or is disabled.",
        examples=[["ops@example.com"]],
    )
    verification: Verification = Field(
        "header",
        description="How the receiver shows that it wants the events: it sends back the header "
        "`X-Hook-Challenge`, or the query parameter `challenge` as its body; `none` where the "
        "server's settings allow it.",
    )
    signatures: list[str] = Field(
        default_factory=lambda: [profile.value for profile in DEFAULT_PROFILES],
        max_length=10,
        description="Signature profiles; each one adds its headers to every delivery: "
        f"{', '.join(Profile)}. Of `nonce`, `body` and `rsa` at most one.",
    )
    signature_hash: Literal["sha1", "sha256", "sha512"] = Field(
        "sha256", description="The hash of the profile `hook`."
    )
    retry_plan: str | dict[str, Any] = Field(
        DEFAULT_PLAN,
        description=f"A preset ({', '.join(PRESETS)}) or an object with `delays_seconds`, "
        "`jitter` and `retry_on`.",
        examples=["hourly", {"delays_seconds": [1, 5, 30], "jitter": 0.1, "retry_on": "all"}],
    )
    timeout_seconds: float | None = Field(
        None, ge=1, le=30, description="Total time for one attempt; default: the retry plan's."
    )
    rate_limit_per_second: float | None = Field(
        None, gt=0, le=10_000, description="Most deliveries per second; default: no limit."
    )
    max_in_flight: int | None = Field(
        None, ge=1, le=1_000, description="Most deliveries under way at once; default: no limit."
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        description="Headers added to every delivery. Answers show their names only.",
        examples=[{"Authorization": "Basic Zm9vOmJhcg=="}],
    )
    encryption: EncryptionForm | None = Field(
        None, description="Encrypt deliveries to the receiver's key; default: they are not."
    )
    allowed_networks: list[str] = Field(
        default_factory=list,
        max_length=50,
        description="Networks (CIDR) the URL must resolve into; default: any public address.",
        examples=[["203.0.113.0/24"]],
    )
    circuit: CircuitForm = Field(default_factory=CircuitForm)
    metadata: Metadata = Field(default_factory=dict)

    @classmethod
    def of(cls, endpoint: Endpoint, *, headers: dict[str, str]) -> EndpointForm:
        """The form that would make this endpoint; `headers` are its own, opened."""
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
        """The columns of `endpoints` this form sets, checked and in their normal form; `headers`
        are still to be sealed.

        Raises InvalidInput, pointing at the member that is wrong.
        """
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
            "headers": self.headers,
            "encryption": None if self.encryption is None else self.encryption.column(),
            "allowed_networks": [
                check_network(text, pointer=f"/allowed_networks/{index}")
                for index, text in enumerate(self.allowed_networks)
            ],
            "circuit": self.circuit.model_dump(exclude_none=True),
            "meta": self.metadata,
        }

    def _checked_url(self, settings: Settings) -> str:
        """The URL in its normal form; '' for an endpoint that is polled, which must have nothing
        else that is about requests: it would do nothing. Raises InvalidInput."""
        if self.mode == "push":
            if self.url is None:
                raise InvalidInput.at(
                    "/url", "name the URL that receives; or let it be polled, with the mode 'poll'"
                )
            return check_url(self.url, allow_http=settings.allow_http)
        for name, none in _OF_REQUESTS.items():
            if getattr(self, name) not in none:
                raise InvalidInput.at(
                    f"/{name}", "an endpoint that is polled gets no requests; leave this out"
                )
        return ""


_OF_REQUESTS: Mapping[str, tuple[Any, ...]] = {
    "url": (None,),
    "owner_emails": ([],),
    "verification": ("header", "none"),
    "signatures": ([profile.value for profile in DEFAULT_PROFILES],),
    "signature_hash": ("sha256",),
    "retry_plan": (DEFAULT_PLAN,),
    "timeout_seconds": (None, PRESETS[DEFAULT_PLAN].timeout),
    "rate_limit_per_second": (None,),
    "max_in_flight": (None,),
    "headers": ({},),
    "encryption": (None,),
    "allowed_networks": ([],),
    "circuit": (CircuitForm(),),
}
"""What is about requests and their failures, and the values that say nothing."""


class NewEndpoint(EndpointForm):
    """A new endpoint and, with `events`, its first subscription."""

    tenant_id: TenantId | None = Field(
        None, description="Its owner; a tenant's key implies its own tenant."
    )
    events: Patterns = Field(default_factory=list)


class SecretView(BaseModel):
    """That there is a secret; never the secret."""

    kind: Literal["hmac", "ed25519"] = "hmac"
    public_key: str | None = Field(
        None,
        validation_alias="public",
        description="Of an ed25519 key: `whpk_…`, to verify `v1a` signatures with.",
    )
    created_at: Time
    expires_at: Time | None = Field(description="Until when it signs; null: until it is rotated.")


class EndpointView(BaseModel):
    """An endpoint. Its secrets are shown when they are made, and never again."""

    id: str
    tenant_id: str
    mode: Mode
    url: str | None = Field(description="Null with the mode `poll`.")
    description: str
    owner_emails: list[str]
    verification: Verification
    signatures: list[str]
    signature_hash: str
    retry_plan: str | dict[str, Any]
    timeout_seconds: float
    rate_limit_per_second: float | None
    max_in_flight: int | None
    headers: dict[str, str] = Field(description="Names, with their values masked.")
    encryption: EncryptionForm | None
    secrets: list[SecretView] = Field(description="What signs, newest first.")
    allowed_networks: list[str]
    circuit: dict[str, Any]
    metadata: dict[str, Any]
    state: str = Field(description="`enabled`, `paused` or `disabled`.")
    state_reason: str | None = Field(description="Why it is not enabled.")
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, endpoint: Endpoint, **more: Any) -> Self:
        """What is shown of a stored endpoint."""
        shown = endpoint.model_dump(exclude={"secrets", "deleted_at", "meta", "headers", "url"})
        return cls(
            **shown,
            url=endpoint.url or None,
            headers=masked(endpoint.headers),
            secrets=[SecretView.model_validate(secret) for secret in endpoint.secrets],
            metadata=endpoint.meta,
            **more,
        )


def pushes(endpoint: Endpoint) -> Endpoint:
    """The endpoint, when requests are sent to it. Raises Conflict (`endpoint_is_polled`)."""
    if endpoint.mode == "poll":
        raise Conflict(
            "This endpoint is polled: no request is ever sent to it. "
            f"`GET /v1/endpoints/{endpoint.id}/poll` gives its events.",
            code="endpoint_is_polled",
        )
    return endpoint


def check_patterns(patterns: list[str], *, pointer: str = "/events") -> list[str]:
    """The patterns, each once. Raises InvalidInput, code `invalid_pattern`."""
    return list(
        dict.fromkeys(
            parse_pattern(text, pointer=f"{pointer}/{index}") for index, text in enumerate(patterns)
        )
    )
