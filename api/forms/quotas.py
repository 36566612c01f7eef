"""A tenant's own quotas, as they are given and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field

from api.http.fields import Input
from hookfast.quotas import MAX_QUOTA

_Own = Annotated[int | None, Field(ge=0, le=MAX_QUOTA)]


class TenantQuotas(Input):
    """The tenant's own quotas. 0 is no limit; null is the quota of all tenants, which
    `HOOKFAST_MAX_…_PER_TENANT` sets."""

    endpoints: _Own = Field(None, description="Most endpoints that the tenant may have.")
    subscriptions: _Own = Field(None, description="Most subscriptions that the tenant may have.")
    sources: _Own = Field(None, description="Most sources that the tenant may have.")
    events_per_day: _Own = Field(
        None, description="Most events emitted for it or received by its sources per day (UTC)."
    )

    @classmethod
    def of(cls, column: Mapping[str, int] | None) -> Self:
        """Return the quotas that a tenant's row has."""
        return cls(**(column or {}))

    def column(self) -> dict[str, int] | None:
        """Return the value of the row's column: only the tenant's own quotas; None if it has
        none."""
        return self.model_dump(exclude_none=True) or None
