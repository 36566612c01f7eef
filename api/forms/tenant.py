"""What a tenant has of its own, as it is given and shown: quotas, and the look of the portal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from api.http.fields import Input
from hookfast.brand import MAX_LOGO, MAX_NAME, parse_accent, parse_logo_url
from hookfast.quotas import MAX_QUOTA

_Quota = Annotated[int | None, Field(ge=0, le=MAX_QUOTA)]


class _Own(Input):
    """Members that a tenant may have of its own; null is what all tenants have."""

    @classmethod
    def of(cls, column: Mapping[str, Any] | None) -> Self:
        """Return the members that a tenant's row has."""
        return cls.model_validate(column or {})

    def column(self) -> dict[str, Any] | None:
        """Return the value of the row's column: only the tenant's own; None if it has none."""
        return self.model_dump(exclude_none=True) or None


class TenantQuotas(_Own):
    """The tenant's own quotas. 0 is no limit; null is the quota of all tenants, which
    `HOOKFAST_MAX_…_PER_TENANT` sets."""

    endpoints: _Quota = Field(None, description="Most endpoints that the tenant may have.")
    subscriptions: _Quota = Field(None, description="Most subscriptions that the tenant may have.")
    sources: _Quota = Field(None, description="Most sources that the tenant may have.")
    events_per_day: _Quota = Field(
        None, description="Most events emitted for it or received by its sources per day (UTC)."
    )


class TenantPortal(_Own):
    """The tenant's own look of the portal, the pages that its portal links open. A member that is
    null is that of all tenants, which `HOOKFAST_PORTAL_…` sets."""

    name: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_NAME,
        description="Name at the top of the pages instead of the platform's, such as a brand.",
    )
    logo_url: Annotated[str, AfterValidator(parse_logo_url)] | None = Field(
        None, max_length=MAX_LOGO, description="https URL of the logo, shown 24 pixels high."
    )
    accent: Annotated[str, AfterValidator(parse_accent)] | None = Field(
        None, description="Colour of buttons, links and the current page, such as `#4338ca`."
    )
