"""Settings from the environment (prefix `HOOKFAST_`) or a `.env` file; secrets also from files
(`HOOKFAST_…_FILE`). `hookfast config` prints the settings in force. Secrets are masked wherever
settings are shown.

Temporal's address, namespace, key and TLS come from `TEMPORAL_*`, read by `temporalio.envconfig`.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from hookfast.deliveries.lane import DeadLetterPolicy
from hookfast.deliveries.time_budget import FAST_LANE
from hookfast.endpoints.circuit import Policy
from hookfast.settings.database_url import sqlite_url
from hookfast.settings.egress_proxy import EgressProxy, parse_egress_proxy
from hookfast.settings.event_type_settings import EventTypeSettings
from hookfast.settings.limit_settings import LimitSettings
from hookfast.settings.local_url import local_url
from hookfast.settings.portal_settings import PortalSettings
from hookfast.settings.retention_settings import RetentionSettings
from hookfast.settings.secret_files import SecretFiles
from hookfast.settings.types import (
    EgressProxyUrl,
    Folder,
    Mailbox,
    Networks,
    OperatorKey,
    PageUrl,
    Port,
    PortRanges,
    PublicUrl,
    Seconds,
    SecondsOrZero,
    TemporalCompression,
    check_number,
    parse_port_ranges,
)


class Settings(LimitSettings, PortalSettings, EventTypeSettings, RetentionSettings, BaseSettings):
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

    home: Folder = Field(Path("var"), description="Folder of the embedded database, keys and mail.")
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
    temporal_compression: TemporalCompression = Field(
        "auto",
        description="gzip for requests to Temporal, which takes 1.9 ms of CPU for each delivery: "
        "`on`, `off`, or `auto`: only if the host of `TEMPORAL_ADDRESS` has an address that is "
        "neither loopback, private nor link-local, or cannot be resolved.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="`postgresql://user:password@host/db`, also with several servers "
        "(`host1,host2`), of which the one that takes writes is used, and with libpq's parameters "
        "(`?sslmode=verify-full`; docs/production.md lists them); or `sqlite:////folder/file`, "
        "with `?`, `#` and `%` as `%XX`; default: SQLite in the home folder.",
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
    mail_from: Mailbox = Field(
        "hookfast@localhost",
        description="Sender of the mail to owners: `hooks@example.com` or "
        "`Hooks <hooks@example.com>`; a name with a comma in double quotes.",
    )
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
        description="First attempts with a timeout of at most this run as local activities, as "
        "do retries whose attempt before took less than a second (seconds).",
    )
    first_attempts: Literal["auto", "workflow", "batch"] = Field(
        "auto",
        description="`workflow`: every delivery has its own workflow from the start. `batch`: up "
        "to a hundred first attempts share a workflow, and a delivery gets its own if it does not "
        "succeed at once. `auto`: batches while a worker gets more than 20 new deliveries a "
        "second, or falls behind.",
    )
    ordered_dead_letters: DeadLetterPolicy = Field(
        DeadLetterPolicy.CONTINUE,
        description="What follows a dead letter where deliveries are ordered. `continue`: the next "
        "delivery of its lane is sent. `wait`: nothing of its lane is sent until someone resends "
        "or cancels it.",
    )
    max_concurrent_attempts: int = Field(
        400,
        ge=1,
        description="Attempts that one worker makes at once, per lane; and slow first attempts "
        "that have left their batches.",
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
        description="Time for a worker to stop after SIGTERM. Running attempts have seven eighths "
        "of it, which should be longer than the longest timeout (seconds).",
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
    runbook_url: PageUrl | None = Field(
        None,
        description="URL of the runbook's page, such as `https://docs.example.com/runbook/`, for "
        "links in alerts (`hookfast alerts`) and in `hookfast doctor`.",
    )
    grafana_url: PublicUrl | None = Field(
        None,
        description="URL of Grafana, such as `https://grafana.example.com`, for links in alerts to "
        "the dashboard.",
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
        "deliveries that were not delivered at once; `none`: no attempts. Both leave out waits for "
        "an endpoint's limits or in a lane. Dead letters are always logged.",
    )
    log_requests: Literal["all", "failures", "none"] = Field(
        "all",
        description="Log lines of the API's requests (the access log). `failures`: answers of 400 "
        "and above.",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _check_numbers(cls, value: object, info: ValidationInfo) -> object:
        annotation = cls.model_fields[info.field_name or ""].annotation
        is_number = {int, float} & {annotation, *get_args(annotation)}
        return check_number(value) if is_number else value

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
    def drain_time(self) -> timedelta:
        """How long running attempts may continue while a worker stops. The rest of the grace is for
        recording them and for leaving."""
        return self.shutdown_grace * 7 / 8

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
        """The database URL in force."""
        if self.database_url is None:
            return sqlite_url(self.home / "hookfast.db")
        return self.database_url.get_secret_value()


@lru_cache
def load_settings() -> Settings:
    """Return the settings in force, which are read once per process."""
    return Settings()
