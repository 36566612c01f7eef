"""Settings from the environment (prefix `HOOKFAST_`) or a `.env` file; secrets also from files
(`HOOKFAST_…_FILE`). `hookfast config` prints the settings in force. Secrets are masked wherever
settings are shown.

Temporal's address, namespace, key and TLS come from `TEMPORAL_*`, read by `temporalio.envconfig`.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from hookfast.deliveries.time_budget import FAST_LANE
from hookfast.endpoints.circuit import Policy
from hookfast.quotas import MAX_QUOTA, Quotas
from hookfast.retention import ages as retention
from hookfast.settings.egress_proxy import EgressProxy, parse_egress_proxy
from hookfast.settings.local_url import local_url
from hookfast.settings.secret_files import SecretFiles
from hookfast.settings.types import (
    EgressProxyUrl,
    Networks,
    OperatorKey,
    Port,
    PortRanges,
    PublicUrl,
    Seconds,
    SecondsOrZero,
    parse_port_ranges,
)

Quota = Annotated[int, Field(ge=0, le=MAX_QUOTA)]


class Settings(BaseSettings):
    """Every setting with its default."""

    model_config = SettingsConfigDict(
        env_prefix="HOOKFAST_",
        env_file=".env",
        extra="ignore",
        frozen=True,
        env_ignore_empty=True,
        hide_input_in_errors=True,  # an error in a log must not show a mistyped key
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources by priority: before each source of variables, the files it names."""
        return (
            init_settings,
            SecretFiles(settings_cls, env_settings),
            env_settings,
            SecretFiles(settings_cls, dotenv_settings),
            dotenv_settings,
        )

    home: Path = Field(Path("var"), description="Folder of the embedded database, keys and mail.")
    host: str = Field("127.0.0.1", description="Address the API listens on.")
    port: Port = Field(8080, description="Port of the API; 0 takes a free one.")
    public_url: PublicUrl | None = Field(
        None,
        description="URL under which receivers reach the API, for links in `thin` payloads; no "
        "endpoint may be at its host; "
        "default: the listening address, or loopback when it listens on every address.",
    )
    temporal_port: Port = Field(
        7233,
        description="Port of the embedded Temporal; a free port when it is taken.",
    )
    temporal_ui_port: Port = Field(
        8233,
        description="Port of the embedded Temporal UI; a free port when it is taken.",
    )
    temporal_ui_url: str | None = Field(
        None,
        description="Base URL of the Temporal UI, for links; `up` sets it for the embedded one.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="`postgresql://user:password@host/db` or `sqlite:///file`; "
        "default: SQLite in the home folder.",
    )
    operator_key: OperatorKey = Field(
        None,
        description="API key of the operator: `hf_` and at least 32 URL-safe characters; default: "
        "a key is generated at the first start and printed once.",
    )
    encryption_keys: SecretStr | None = Field(
        None,
        description="Comma-separated base64 keys of 32 bytes that encrypt secrets at rest, newest "
        "first (`hookfast secrets rekey --help` explains how to change them); default: a key file "
        "in the home folder.",
    )
    allowed_private_networks: Networks = Field(
        (),
        description="Comma-separated CIDRs that deliveries may go to although they are not public.",
    )
    denied_networks: Networks = Field(
        (),
        description="Comma-separated CIDRs that deliveries never go to, such as your own public "
        "addresses.",
    )
    allowed_ports: PortRanges = Field(
        "",
        description="Comma-separated ports and ranges (`443,8000-8999`) that deliveries may go to; "
        "default: all but those of well-known services that are not HTTP (the WHATWG's bad ports, "
        "such as 25 and 6000), which are allowed if listed here.",
    )
    egress_proxy: EgressProxyUrl = Field(
        None,
        description="HTTP proxy, `http://user:password@host:3128`, through which every request to "
        "a receiver goes (with CONNECT); default: directly.",
    )
    trusted_proxies: Networks = Field(
        (),
        description="Comma-separated CIDRs of the reverse proxies in front of the API: "
        "`X-Forwarded-For` and `X-Forwarded-Proto` are trusted only from them.",
    )
    allow_http: bool = Field(False, description="Accept `http://` endpoint URLs.")
    allow_unverified: bool = Field(False, description="Accept endpoints with `verification: none`.")
    smtp_url: SecretStr | None = Field(
        None,
        description="Mail server, `smtp://user:password@host:587` or `smtps://…`; "
        "default: `.eml` files.",
    )
    mail_from: str = Field("hookfast@localhost", description="Sender of the mail to owners.")
    mail_gather: Seconds = Field(
        timedelta(seconds=20),
        description="How long to wait for more news for an owner before sending a mail (seconds).",
    )
    mail_digest_every: Seconds = Field(
        timedelta(minutes=15),
        description="Shortest time between two mails of one kind to one owner; news in between "
        "goes into one digest (seconds).",
    )
    owner_link_lifetime: SecondsOrZero = Field(
        timedelta(days=7),
        le=timedelta(days=30),
        description="How long the links in mail to owners open the page of the endpoint, "
        "read-only, without an API key (seconds). 0: the links require a key.",
    )
    circuit_failure_threshold: int = Field(
        5, ge=1, description="Consecutive failures that open an endpoint's circuit."
    )
    circuit_min_span: SecondsOrZero = Field(
        timedelta(seconds=10),
        description="Shortest time those failures must span (seconds).",
    )
    circuit_disable_after: Seconds = Field(
        timedelta(hours=72),
        description="Time without a success after which an endpoint is disabled (seconds).",
    )
    held_backstop: Seconds = Field(
        timedelta(hours=6),
        description="How often a held delivery checks whether it may be sent, in case it missed "
        "its release (seconds).",
    )
    job_rate_per_second: float = Field(
        50,
        gt=0,
        le=1_000,
        description="Deliveries that a job acts on per second, unless the job sets a rate.",
    )
    event_retention: SecondsOrZero = Field(
        timedelta(days=30),
        description="How long events are kept; longer while one of their deliveries is kept "
        "(seconds; 0 keeps for ever, here and in the next eight settings). Whole days are deleted "
        "nightly.",
    )
    delivery_retention: SecondsOrZero = Field(
        timedelta(days=30),
        description="How long deliveries are kept after they ended as delivered or cancelled "
        "(seconds).",
    )
    attempt_retention: SecondsOrZero = Field(
        timedelta(days=30), description="How long attempts are kept (seconds)."
    )
    dead_letter_retention: SecondsOrZero = Field(
        timedelta(days=30), description="How long dead letters are kept (seconds)."
    )
    inbox_retention: SecondsOrZero = Field(
        timedelta(days=30),
        description="How long received requests are kept; longer while their event is kept "
        "(seconds).",
    )
    idempotency_retention: SecondsOrZero = Field(
        timedelta(days=30),
        description="How long an idempotency key is answered with its event (seconds).",
    )
    notice_retention: SecondsOrZero = Field(
        timedelta(days=90), description="How long notices to owners are kept (seconds)."
    )
    job_retention: SecondsOrZero = Field(
        timedelta(days=90), description="How long jobs are kept after they ended (seconds)."
    )
    audit_retention: SecondsOrZero = Field(
        timedelta(days=365), description="How long the audit log is kept (seconds)."
    )
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
        description="Inbound requests that one API process handles at once, at most half of them "
        "for one source; more get 503.",
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
        description="Bytes of request bodies that one API process holds at once, at most half of "
        "them from callers that are not authenticated yet; parsed, they may take four times as "
        "much. More get 503.",
    )
    max_body_seconds: Seconds = Field(
        timedelta(seconds=30),
        description="Longest time a request body may take to arrive (seconds).",
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
        description="Attempts per second that one API key may send to one API process; 0 is no "
        "limit.",
    )
    key_rate_burst: int = Field(
        100,
        ge=1,
        description="Attempts that one API key may send at once when there is such a limit.",
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
    response_excerpt_bytes: int = Field(
        2_048,
        ge=0,
        le=65_536,
        description="Bytes of a receiver's answer that are kept with an attempt.",
    )
    attempt_header_bytes: int = Field(
        4_096,
        ge=0,
        le=65_536,
        description="Bytes of the headers of a request, and of its answer, that are kept with an "
        "attempt, secrets masked; 0 keeps none.",
    )
    fast_lane_timeout: Seconds = Field(
        timedelta(seconds=5),
        le=FAST_LANE,
        description="First attempts with a timeout of at most this run as local activities "
        "(seconds).",
    )
    first_attempts: Literal["auto", "workflow", "batch"] = Field(
        "auto",
        description="`workflow`: every delivery has its own workflow from the start. `batch`: up "
        "to a hundred first attempts share a workflow, and a delivery gets its own if it does not "
        "succeed at once. `auto`: batches while a worker gets more than 20 new deliveries a "
        "second, or falls behind.",
    )
    max_concurrent_attempts: int = Field(
        400, ge=1, description="Attempts that one worker makes at once, per lane."
    )
    max_concurrent_control: int = Field(
        100, ge=1, description="Circuits, jobs and mails that one worker handles at once."
    )
    relay_batch: int = Field(
        64, ge=1, le=1_000, description="Deliveries that the relay claims at once, at most."
    )
    relay_lease: Seconds = Field(
        timedelta(seconds=30),
        description="How long a claim lasts before another relay may take it (seconds).",
    )
    shutdown_grace: Seconds = Field(
        timedelta(seconds=40),
        description="Time for running attempts to end after SIGTERM; longer than the longest "
        "timeout (seconds).",
    )
    metrics_token: SecretStr | None = Field(
        None,
        description="Bearer token that reads `/metrics` of the API (which also accepts the "
        "operator's key) and of workers; default: only this machine may read it.",
    )
    metrics_by_tenant: bool = Field(
        False,
        description="Adds the label `tenant_id` to the counts of deliveries and attempts; for "
        "hundreds of tenants, not for thousands.",
    )
    api_processes: int = Field(
        1,
        ge=1,
        le=64,
        description="API processes that `up` runs on one port; limits per API process apply to "
        "each.",
    )
    worker_metrics_port: Port = Field(
        9464,
        description="Port of a worker's `/metrics`; a free port when it is taken, named in the "
        "log.",
    )
    temporal_metrics: Literal["scrape", "push"] = Field(
        "scrape",
        description="Where the metrics of Temporal's SDK go: to the worker's `/metrics`, or `push` "
        "to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names.",
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="`auto` is `console` on a terminal and `json` elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe log line shown."
    )
    log_attempts: Literal["all", "failures", "none"] = Field(
        "all",
        description="Log lines of attempts and ended deliveries. `failures`: failed attempts, and "
        "deliveries that were not delivered at once; `none`: no attempts. Dead letters are always "
        "logged.",
    )
    log_requests: Literal["all", "failures", "none"] = Field(
        "all",
        description="Log lines of the API's requests (the access log). `failures`: answers of 400 "
        "and above.",
    )

    @model_validator(mode="after")
    def _check_ages(self) -> Self:
        names = [name for name in type(self).model_fields if name.endswith("_retention")]
        if found := retention.errors_in({name: getattr(self, name) for name in names}):
            raise ValueError("; ".join(found))
        return self

    @property
    def ages(self) -> dict[str, timedelta]:
        """How long the rows of each of `retention.SWEEPS` are kept; 0 is for ever."""
        return {
            "attempts": self.attempt_retention,
            "dead_letters": self.dead_letter_retention,
            "deliveries": self.delivery_retention,
            "idempotency_keys": self.idempotency_retention,
            "events": self.event_retention,
            "inbox": self.inbox_retention,
            "notices": self.notice_retention,
            "jobs": self.job_retention,
            "audit": self.audit_retention,
        }

    @property
    def quotas(self) -> Quotas:
        """The quotas of every tenant that has none of its own."""
        return Quotas(
            endpoints=self.max_endpoints_per_tenant,
            subscriptions=self.max_subscriptions_per_tenant,
            sources=self.max_sources_per_tenant,
            events_per_day=self.max_events_per_tenant_per_day,
        )

    @property
    def port_ranges(self) -> tuple[range, ...]:
        """The ports that deliveries may go to; empty means the guard's default."""
        return parse_port_ranges(self.allowed_ports)

    @property
    def parsed_egress_proxy(self) -> EgressProxy | None:
        """The proxy through which requests to receivers go, if any."""
        url = self.egress_proxy
        return None if url is None else parse_egress_proxy(url.get_secret_value())

    @property
    def circuit_policy(self) -> Policy:
        """When circuits open and endpoints are disabled, unless an endpoint has its own policy."""
        return Policy(
            failure_threshold=self.circuit_failure_threshold,
            min_span=self.circuit_min_span,
            disable_after=self.circuit_disable_after,
        )

    @property
    def resolved_public_url(self) -> str:
        """The URL at which receivers reach the API, without a trailing slash. If it is not set and
        the API listens on every address, only this machine can use it."""
        return (self.public_url or local_url(self.host, self.port)).rstrip("/")

    @property
    def resolved_database_url(self) -> str:
        """The database URL in force, with a scheme that names our async driver."""
        if self.database_url is None:
            return f"sqlite+aiosqlite:///{self.home.absolute() / 'hookfast.db'}"
        url = self.database_url.get_secret_value()
        for scheme, with_driver in _DRIVERS.items():
            if url.startswith(scheme):
                return with_driver + url.removeprefix(scheme)
        return url


_DRIVERS = {
    "postgresql://": "postgresql+asyncpg://",
    "postgres://": "postgresql+asyncpg://",
    "sqlite://": "sqlite+aiosqlite://",
}


@lru_cache
def load_settings() -> Settings:
    """Return the settings in force, which are read once per process."""
    return Settings()
