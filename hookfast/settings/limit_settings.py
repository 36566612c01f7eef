"""The settings that limit what callers of the API may use: sizes, rates, and quotas of tenants."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, Field

from hookfast.quotas import MAX_QUOTA, Quotas
from hookfast.settings.types import Seconds

Quota = Annotated[int, Field(ge=0, le=MAX_QUOTA)]


class LimitSettings(BaseModel):
    """The limits of the API; a part of `Settings`."""

    max_event_bytes: int = Field(
        262_144, ge=1_024, le=1_500_000, description="Largest event, in bytes of its request body."
    )
    max_batch_bytes: int = Field(
        16_777_216, ge=1_024, description="Largest body of `POST /v1/events/batch`, in bytes."
    )
    max_inbox_bytes: int = Field(
        5_242_880,
        ge=1_024,
        le=67_108_864,
        description="Largest body of `POST /in/{source_id}`, in bytes. GitHub sends up to 25 MB.",
    )
    max_inbox_requests: int = Field(
        256,
        ge=2,
        le=10_000,
        description="Inbound requests whose bodies have arrived that one API process verifies and "
        "stores at once, at most half of them for one source; more get 503.",
    )
    max_streams: int = Field(
        200,
        ge=1,
        le=10_000,
        description="Event streams (`GET /v1/stream`) that one API process has open at once; more "
        "get 503. One tenant may have a quarter of them; more get 429.",
    )
    max_backlog: int = Field(
        1_000_000,
        ge=0,
        le=100_000_000,
        description="Deliveries that may wait for a worker before `POST /v1/events` and its batch "
        "answer 503; checked every few seconds; 0 is no limit.",
    )
    max_body_memory: int = Field(
        67_108_864,
        ge=1_048_576,
        description="Bytes of bodies above 16 KiB that one process holds at once: of requests that "
        "arrive, answers that leave, and deliveries that a worker sends; parsed, requests may take "
        "four times as much. A tenant, an endpoint, a source and a client's site may each hold "
        "half of what is free; the largest body always finds room. More waits up to ten seconds, "
        "then gets 503; a worker sends it later.",
    )
    max_body_seconds: Seconds = Field(
        timedelta(seconds=30),
        description="Longest time a request body may take to arrive (seconds).",
    )
    max_connections: int = Field(
        4_000,
        ge=16,
        le=1_000_000,
        description="Connections that one API process has open at once. For one more, the oldest "
        "that has not sent a request yet is closed, or else the one that has been idle for "
        "longest; if all have a request in progress, it gets 503. Each takes one open file.",
    )
    max_connections_per_client: int = Field(
        1_000,
        ge=1,
        le=1_000_000,
        description="Of these, connections of one client (IPv4 address or IPv6 /64). Behind the "
        "proxies in `HOOKFAST_TRUSTED_PROXIES`: requests of one client in progress at once; more "
        "get 429.",
    )
    max_unread_seconds: Seconds = Field(
        timedelta(seconds=30),
        description="A connection is closed if its client takes less than 4 KiB a second of an "
        "answer, streams included, for this long (seconds).",
    )
    auth_failures_per_minute: int = Field(
        60,
        ge=0,
        description="Attempts without a valid API key that one client (IPv4 address or IPv6 /64) "
        "may send to an API process per minute before it gets 429; 0 is no limit. Valid keys "
        "always work.",
    )
    key_rate_per_second: float = Field(
        0,
        ge=0,
        le=100_000,
        allow_inf_nan=False,
        description="Requests per second that one API key may send to one API process; 0 is no "
        "limit.",
    )
    key_rate_burst: int = Field(
        100,
        ge=1,
        description="Requests that one API key may send at once when there is such a limit.",
    )
    test_sends_per_minute: int = Field(
        60,
        ge=0,
        description="Test sends, and verifications of endpoints, that one API process makes for a "
        "tenant per minute; more get 429; 0 is no limit. A person does not click faster, and a "
        "script may add as many endpoints at once.",
    )
    max_endpoints_per_tenant: Quota = Field(
        0,
        description="Endpoints that a tenant may have; another gets 409 (`quota_exceeded`); 0 is "
        "no limit, here and in the next three settings. `PATCH /v1/tenants/{tenant_id}` gives a "
        "tenant quotas of its own.",
    )
    max_subscriptions_per_tenant: Quota = Field(
        0, description="Subscriptions that a tenant may have; another gets 409."
    )
    max_sources_per_tenant: Quota = Field(
        100,
        description="Sources that a tenant may have; another gets 409. Each source may add event "
        "types to the catalogue that all tenants share.",
    )
    max_events_per_tenant_per_day: Quota = Field(
        0,
        description="Events that may be emitted for a tenant on a day (UTC), received ones "
        "included; more get 429 (`daily_quota_exceeded`) until midnight. Exact across all "
        "processes.",
    )

    @property
    def quotas(self) -> Quotas:
        """The quotas of every tenant that has none of its own."""
        return Quotas(
            endpoints=self.max_endpoints_per_tenant,
            subscriptions=self.max_subscriptions_per_tenant,
            sources=self.max_sources_per_tenant,
            events_per_day=self.max_events_per_tenant_per_day,
        )
