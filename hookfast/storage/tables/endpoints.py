"""The tables of the receivers: endpoints, their subscriptions, limits and poll positions, and the
signing keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Index, Text, false
from sqlmodel import Field

from hookfast.storage.database.column_types import SettingsJson, UtcDateTime
from hookfast.storage.tables.record import Record, partial_index


class Endpoint(Record, table=True):
    """A URL with its secrets, signature profiles, retry plan, limits and state.

    `secrets` and `headers` are sealed, in the form of `hookfast.endpoints.secrets`, and so are
    `credentials` (`hookfast.endpoints.credentials`). `encryption` is the receiver's public key and
    how it is used. Deleted endpoints keep their row, because their
    deliveries still refer to it.
    """

    __tablename__ = "endpoints"
    __table_args__ = (
        # lists: one tenant's endpoints, newest first
        Index("ix_endpoints_tenant", "tenant_id", "id"),
        # lists of paused and of disabled endpoints
        partial_index(
            "ix_endpoints_stopped",
            *("state", "id"),
            where="state <> 'enabled' AND deleted_at IS NULL",
        ),
    )

    id: str = Field(primary_key=True)
    tenant_id: str
    url: str = Field(sa_type=Text)
    description: str = Field(sa_type=Text)
    owner_emails: list[str] = Field(default_factory=list, sa_type=JSON)
    signatures: list[str] = Field(sa_type=JSON)
    signature_hash: str = "sha256"
    secrets: list[dict[str, Any]] = Field(sa_type=JSON)
    retry_plan: str | dict[str, Any] = Field(sa_type=SettingsJson)
    timeout_seconds: float
    rate_limit_per_second: float | None = None
    max_in_flight: int | None = None
    headers: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    credentials: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)
    encryption: dict[str, Any] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    allowed_networks: list[str] = Field(default_factory=list, sa_type=JSON)
    circuit: dict[str, Any] = Field(default_factory=dict, sa_type=SettingsJson)
    verification: str
    meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    state: str = "enabled"
    state_reason: str | None = Field(default=None, sa_type=Text)
    # `poll`: no request is sent, the URL is '', and the consumer fetches events (`storage.feed`)
    mode: str = Field(default="push", sa_column_kwargs={"server_default": "push"})
    # its subscriptions' deliveries are sent in order, as if each of them were `ordered`
    ordered: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class SigningKey(Record, table=True):
    """An RSA key of the service: `public` is its JWK, `sealed` its private part. It signs from
    `signs_from` until a newer key does, and is in the key directory until `retired_at`."""

    __tablename__ = "signing_keys"

    kid: str = Field(primary_key=True)
    kind: str
    public: dict[str, str] = Field(sa_type=JSON)
    sealed: str = Field(sa_type=Text)
    created_at: datetime = Field(sa_type=UtcDateTime)
    signs_from: datetime = Field(sa_type=UtcDateTime)
    retired_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class Subscription(Record, table=True):
    """The event types, as patterns, that are sent to an endpoint. `filter` is a condition on the
    events' data (see `hookfast.events.filter`)."""

    __tablename__ = "subscriptions"
    __table_args__ = (
        Index("ix_subscriptions_tenant", "tenant_id", "id"),
        Index("ix_subscriptions_endpoint", "endpoint_id", "id"),
    )

    id: str = Field(primary_key=True)
    endpoint_id: str
    tenant_id: str
    events: list[str] = Field(sa_type=JSON)
    payload: str = "full"
    mapping: str | None = Field(default=None, sa_type=Text)
    filter: dict[str, Any] | None = Field(default=None, sa_type=JSON(none_as_null=True))
    active: bool = True
    ordered: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class SubscriptionMapping(Record, table=True):
    """The latest mapping that a subscription had. It is kept when the subscription is deleted or
    gets another payload, because its deliveries with the payload `mapped` still need it."""

    __tablename__ = "subscription_mappings"

    subscription_id: str = Field(primary_key=True)
    mapping: str = Field(sa_type=Text)


class SubscriptionPattern(Record, table=True):
    """One pattern of a subscription. Few patterns can match an event type (15 for three parts), so
    its subscribers are found by index look-ups of those, however many there are."""

    __tablename__ = "subscription_patterns"
    __table_args__ = (Index("ix_subscription_patterns_subscription", "subscription_id"),)

    pattern: str = Field(primary_key=True)
    tenant_id: str = Field(primary_key=True)
    subscription_id: str = Field(primary_key=True)


class EndpointLimits(Record, table=True):
    """The state of an endpoint's rate limit: when its next request may start (`next_slot_at`), the
    latest time at which a waiting delivery will retry (`promised_until`), and how long its requests
    take on average (`mean_seconds`)."""

    __tablename__ = "endpoint_limits"

    endpoint_id: str = Field(primary_key=True)
    next_slot_at: datetime = Field(sa_type=UtcDateTime)
    promised_until: datetime = Field(sa_type=UtcDateTime)
    mean_seconds: float


class InFlight(Record, table=True):
    """A request in flight to an endpoint with `max_in_flight`. Its slot is free again at `until` at
    the latest, in case its worker dies."""

    __tablename__ = "in_flight"
    __table_args__ = (Index("ix_in_flight_endpoint", "endpoint_id", "until"),)

    delivery_id: str = Field(primary_key=True)
    endpoint_id: str
    until: datetime = Field(sa_type=UtcDateTime)


class PollPosition(Record, table=True):
    """The place up to which a polling endpoint's consumer has acknowledged the feed: a `Cursor`, in
    parts. An endpoint that was never polled may have no row."""

    __tablename__ = "poll_positions"

    endpoint_id: str = Field(primary_key=True)
    position: int = Field(sa_type=BigInteger)
    event_id: str | None = None
    seen_at: datetime = Field(sa_type=UtcDateTime)
    acknowledged_at: datetime = Field(sa_type=UtcDateTime)
