"""The members of a resource in responses that are its settings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, create_model

from hookfast.resources.setting import bare


class OwnedView(BaseModel):
    """The first members of a resource of a tenant."""

    id: str
    tenant_id: str


def view_of(settings: type[BaseModel]) -> type[BaseModel]:
    """Return the base of a resource's view: its settings with their types and descriptions, without
    defaults, and without the bounds and checks of input, which a stored value need not satisfy."""
    members: dict[str, Any] = {
        name: (bare(declared.annotation), Field(description=declared.description))
        for name, declared in settings.model_fields.items()
    }
    return create_model(f"{settings.__name__}View", **members)
