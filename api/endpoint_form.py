"""An endpoint as it is sent, checked, stored and shown."""

from __future__ import annotations

from datetime import datetime
from ipaddress import ip_network
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from api.custom_headers import check_headers, masked
from api.fields import Description, Email, Input, Metadata, TenantId, Time
from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput
from hookfast.event_type import parse_pattern
from hookfast.retry_plan import DEFAULT_PLAN, PRESETS, parse_plan
from hookfast.sender import check_url
from hookfast.settings import Settings
from hookfast.signature import DEFAULT_PROFILES, parse_profiles
from hookfast.storage.tables import Endpoint

MAX_PATTERNS = 50
"""Patterns of one subscription; each one is a question when the receiver is verified."""

Verification = Literal["header", "query", "none"]
State = Literal["enabled", "disabled"]
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


class EndpointForm(Input):
    """What can be set, and changed later."""

    url: str = Field(
        description="Where events are sent: https, no credentials, no fragment.",
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
        description="Signature profiles; each one adds its headers to every delivery.",
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
    allowed_networks: list[str] = Field(
        default_factory=list,
        max_length=50,
        description="Networks (CIDR) the URL must resolve into; default: any public address.",
        examples=[["203.0.113.0/24"]],
    )
    circuit: CircuitForm = Field(default_factory=CircuitForm)
    metadata: Metadata = Field(default_factory=dict)

    @classmethod
    def of(cls, endpoint: Endpoint) -> EndpointForm:
        """The form that would make this endpoint."""
        return cls.model_construct(
            **endpoint.model_dump(include=set(cls.model_fields) - {"circuit", "metadata"}),
            circuit=CircuitForm.model_validate(endpoint.circuit),
            metadata=endpoint.meta,
        )

    def columns(self, settings: Settings) -> dict[str, Any]:
        """The columns of `endpoints` this form sets, checked and in their normal form.

        Raises InvalidInput, pointing at the member that is wrong.
        """
        plan = parse_plan(self.retry_plan)
        check_headers(self.headers)
        timeout = plan.timeout if self.timeout_seconds is None else self.timeout_seconds
        return {
            "url": check_url(self.url, allow_http=settings.allow_http),
            "description": self.description,
            "owner_emails": list(dict.fromkeys(self.owner_emails)),
            "verification": self.verification,
            "signatures": [profile.value for profile in parse_profiles(self.signatures)],
            "signature_hash": self.signature_hash,
            "retry_plan": self.retry_plan,
            "timeout_seconds": timeout,
            "rate_limit_per_second": self.rate_limit_per_second,
            "max_in_flight": self.max_in_flight,
            "headers": self.headers,
            "allowed_networks": [
                _network(text, pointer=f"/allowed_networks/{index}")
                for index, text in enumerate(self.allowed_networks)
            ],
            "circuit": self.circuit.model_dump(exclude_none=True),
            "meta": self.metadata,
        }


class NewEndpoint(EndpointForm):
    """A new endpoint and, with `events`, its first subscription."""

    tenant_id: TenantId | None = Field(
        None, description="Its owner; a tenant's key implies its own tenant."
    )
    events: Patterns = Field(default_factory=list)


class EndpointView(BaseModel):
    """An endpoint. Its secrets are shown when they are made, and never again."""

    id: str
    tenant_id: str
    url: str
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
    allowed_networks: list[str]
    circuit: dict[str, Any]
    metadata: dict[str, Any]
    state: str = Field(description="`enabled` or `disabled`.")
    state_reason: str | None = Field(description="Why it is not enabled.")
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, endpoint: Endpoint, **more: Any) -> Self:
        """What is shown of a stored endpoint."""
        shown = endpoint.model_dump(exclude={"secrets", "deleted_at", "meta", "headers"})
        return cls(**shown, headers=masked(endpoint.headers), metadata=endpoint.meta, **more)


def check_patterns(patterns: list[str], *, pointer: str = "/events") -> list[str]:
    """The patterns, each once. Raises InvalidInput, code `invalid_pattern`."""
    return list(
        dict.fromkeys(
            parse_pattern(text, pointer=f"{pointer}/{index}") for index, text in enumerate(patterns)
        )
    )


def sealed_secret(sealed: str, *, created_at: datetime) -> dict[str, Any]:
    """One element of the column `secrets`."""
    return {"sealed": sealed, "created_at": rfc3339(created_at), "expires_at": None}


def _network(text: str, *, pointer: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise InvalidInput.at(
            pointer, "must be a network such as 203.0.113.0/24, without host bits"
        ) from None
