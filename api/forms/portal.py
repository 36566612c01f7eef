"""A tenant's own look of the portal, as it is given and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, Field

from api.http.fields import Input
from hookfast.brand import MAX_LOGO, MAX_NAME, parse_accent, parse_logo_url


class TenantPortal(Input):
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

    @classmethod
    def of(cls, column: Mapping[str, str] | None) -> Self:
        """Return the look that a tenant's row has."""
        return cls.model_validate(column or {})

    def column(self) -> dict[str, str] | None:
        """Return the value of the row's column: only the tenant's own; None if it has none."""
        return self.model_dump(exclude_none=True) or None
