"""The settings of retention: how long rows are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from pydantic import BaseModel, Field, model_validator

from hookfast.retention import ages as retention
from hookfast.settings.types import SecondsOrZero


class RetentionSettings(BaseModel):
    """How long the rows of each kind are kept; a part of `Settings`."""

    event_retention: SecondsOrZero = Field(
        timedelta(days=30),
        description="How long events are kept; longer while one of their deliveries is kept "
        "(seconds; 0 keeps for ever, here and in the next nine settings). Whole days are deleted "
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
    figure_retention: SecondsOrZero = Field(
        timedelta(days=400),
        description="How long figures are kept, at least 41 days (seconds). They outlive the rows "
        "that they count: by the minute for two days, by the hour for forty, then by the day.",
    )

    @model_validator(mode="after")
    def _check_ages(self) -> Self:
        ages = {name: getattr(self, name) for name in RetentionSettings.model_fields}
        if found := retention.errors_in(ages):
            raise ValueError("; ".join(found))
        return self

    @property
    def ages(self) -> dict[str, timedelta]:
        """How long the rows of each of `retention.SWEEPS`, and figures, are kept; 0 is for
        ever."""
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
            retention.FIGURES: self.figure_retention,
        }
