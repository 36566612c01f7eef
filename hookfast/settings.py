"""Settings from the environment (prefix `HOOKFAST_`) or a `.env` file. `hookfast config` prints the
ones in force; secrets are masked everywhere they could be shown.

Temporal's address, namespace, key and TLS come from `TEMPORAL_*`, read by `temporalio.envconfig`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

Network = IPv4Network | IPv6Network


def _seconds(value: object) -> object:
    """A number in text counts seconds; whatever else (`PT30S`, `00:00:30`) is pydantic's to read,
    which takes a number for seconds but not its text."""
    if isinstance(value, str):
        with suppress(ValueError):
            return float(value)
    return value


Seconds = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta(0))]

OPERATOR_KEY_FORM = re.compile(r"hf_[A-Za-z0-9_-]{32,}")


class Settings(BaseSettings):
    """Everything that can be set, with its default."""

    model_config = SettingsConfigDict(
        env_prefix="HOOKFAST_",
        env_file=".env",
        extra="ignore",
        frozen=True,
        env_ignore_empty=True,
        hide_input_in_errors=True,  # a mistyped key must not end up in a log
    )

    home: Path = Field(Path("var"), description="Folder for the embedded database, keys and mail.")
    host: str = Field("127.0.0.1", description="Address the API listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port of the API; 0 takes a free one.")
    public_url: str | None = Field(
        None,
        description="Where receivers reach the API, for links in `thin` payloads; "
        "default: the address it listens on.",
    )
    temporal_port: int = Field(
        7233, ge=0, le=65535, description="Port of the embedded Temporal; a free one when taken."
    )
    temporal_ui_port: int = Field(
        8233, ge=0, le=65535, description="Port of the embedded Temporal UI; a free one when taken."
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
    operator_key: SecretStr | None = Field(
        None,
        description="The operator's API key: `hf_` and at least 32 URL-safe characters; "
        "default: one is made at first start and printed once.",
    )
    encryption_keys: SecretStr | None = Field(
        None,
        description="Comma-separated base64 keys of 32 bytes for secrets at rest, newest first; "
        "default: a key file in the home folder.",
    )
    allowed_private_networks: Annotated[tuple[Network, ...], NoDecode] = Field(
        (),
        description="Comma-separated CIDRs that deliveries may go to although they are not public.",
    )
    allow_http: bool = Field(False, description="Accept `http://` endpoint URLs.")
    allow_unverified: bool = Field(False, description="Accept endpoints with `verification: none`.")
    smtp_url: SecretStr | None = Field(
        None, description="Mail server, `smtp://user:password@host:587`; default: `.eml` files."
    )
    mail_from: str = Field("hookfast@localhost", description="Sender of the mail to owners.")
    max_event_bytes: int = Field(
        262_144, ge=1_024, le=1_500_000, description="Largest event, in bytes of its request body."
    )
    max_batch_bytes: int = Field(
        16_777_216, ge=1_024, description="Largest body of `POST /v1/events/batch`, in bytes."
    )
    max_body_seconds: Seconds = Field(
        timedelta(seconds=30),
        description="Longest time a request body may take to arrive (seconds).",
    )
    response_excerpt_bytes: int = Field(
        2_048,
        ge=0,
        le=65_536,
        description="How much of a receiver's answer is kept with an attempt.",
    )
    fast_lane_timeout: Seconds = Field(
        timedelta(seconds=5),
        description="First attempts with a timeout up to this run as local activities (seconds).",
    )
    fast_lane_per_endpoint: int = Field(
        16, ge=1, description="First attempts one worker has open to one endpoint in the fast lane."
    )
    max_concurrent_attempts: int = Field(
        200, ge=1, description="Attempts one worker runs at once, per lane."
    )
    relay_batch: int = Field(
        200, ge=1, le=1_000, description="Deliveries the relay claims at once."
    )
    relay_lease: Seconds = Field(
        timedelta(seconds=30),
        description="How long a claim lasts before another relay may take it.",
    )
    shutdown_grace: Seconds = Field(
        timedelta(seconds=40),
        description="Time for running attempts to end on SIGTERM; more than the longest timeout.",
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="`auto` is `console` on a terminal and `json` elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe log line shown."
    )

    @field_validator("allowed_private_networks", mode="before")
    @classmethod
    def _split_networks(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
        return value

    @field_validator("operator_key")
    @classmethod
    def _operator_key_form(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not OPERATOR_KEY_FORM.fullmatch(value.get_secret_value()):
            raise ValueError("must be 'hf_' followed by at least 32 URL-safe characters")
        return value

    @property
    def resolved_public_url(self) -> str:
        """Where receivers reach the API, without a trailing slash."""
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def resolved_database_url(self) -> str:
        """The database URL in force, with a scheme that names our async driver."""
        if self.database_url is None:
            return f"sqlite+aiosqlite:///{self.home.absolute() / 'hookfast.db'}"
        url = self.database_url.get_secret_value()
        for given, ours in _DRIVERS.items():
            if url.startswith(given):
                return ours + url.removeprefix(given)
        return url


_DRIVERS = {
    "postgresql://": "postgresql+asyncpg://",
    "postgres://": "postgresql+asyncpg://",
    "sqlite://": "sqlite+aiosqlite://",
}


@lru_cache
def load_settings() -> Settings:
    """The settings in force, read once per process."""
    return Settings()
