"""The settings of the portal, the pages of the platform's customers."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field
from pydantic_settings import NoDecode

from hookfast.brand import MAX_NAME, Brand, parse_accent, parse_logo_url, parse_origin
from hookfast.settings.types import comma_separated


class PortalSettings(BaseModel):
    """The look of the portal and the sites that may embed it; a part of `Settings`."""

    portal_name: str = Field(
        "Webhooks",
        min_length=1,
        max_length=MAX_NAME,
        description="The platform's name, as the portal and the guide show it to customers.",
    )
    portal_logo_url: Annotated[str, AfterValidator(parse_logo_url)] | None = Field(
        None,
        description="https URL of the platform's logo, which the portal shows 24 pixels high; "
        "default: only the name.",
    )
    portal_accent: Annotated[str, AfterValidator(parse_accent)] = Field(
        "#4338ca",
        validate_default=True,
        description="The portal's colour for buttons, links and the current page, such as "
        "`#4338ca`. Text gets enough contrast whatever it is.",
    )
    portal_frame_origins: Annotated[tuple[str, ...], comma_separated(parse_origin), NoDecode] = (
        Field(
            (),
            description="Comma-separated origins that may embed the portal in a frame, such as "
            "`https://app.example.com`; default: none.",
        )
    )

    @property
    def brand(self) -> Brand:
        """The look of the portal of tenants without one of their own."""
        return Brand(
            name=self.portal_name, logo_url=self.portal_logo_url, accent=self.portal_accent
        )
