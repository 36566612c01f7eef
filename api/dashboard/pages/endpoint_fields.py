"""An endpoint's settings as the fields of a form. Settings without a field stay as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from api.dashboard.site.form import Form, changed_members
from api.forms.endpoint import EndpointView
from hookfast.deliveries.retry_plan import DEFAULT_PLAN, PRESETS
from hookfast.errors import InvalidInput
from hookfast.signing.signature import DEFAULT_PROFILES, Profile

CUSTOM: Final = "custom"
PLANS: Final = (*((name, name) for name in PRESETS), (CUSTOM, "custom plan"))
PROFILES: Final = tuple(profile.value for profile in Profile)
NUMBERS: Final = ("timeout_seconds", "rate_limit_per_second", "max_in_flight")
_POLLED_MEMBERS: Final = ("description", "owner_emails")  # the others are about requests


def new_fields() -> dict[str, Any]:
    """Return the fields of the form for a new endpoint."""
    return {
        "url": "",
        "description": "",
        "owner_emails": "",
        "events": "",
        "verification": "header",
        "signatures": [profile.value for profile in DEFAULT_PROFILES],
        "plan": DEFAULT_PLAN,
        "own_plan": "",
        **dict.fromkeys(NUMBERS, ""),
    }


def stored_fields(endpoint: EndpointView) -> dict[str, Any]:
    """Return the fields of the form with an endpoint's settings."""
    preset = isinstance(endpoint.retry_plan, str)
    return {
        "url": endpoint.url or "",
        "description": endpoint.description,
        "owner_emails": "\n".join(endpoint.owner_emails),
        "verification": endpoint.verification,
        "signatures": endpoint.signatures,
        "plan": endpoint.retry_plan if preset else CUSTOM,
        "own_plan": "" if preset else json.dumps(endpoint.retry_plan),
        **{name: _number_text(getattr(endpoint, name)) for name in NUMBERS},
    }


def submitted_fields(form: Form) -> dict[str, Any]:
    """Return the submitted fields, to show them again beside the errors."""
    sent: dict[str, Any] = {name: form.get(name, "") for name in new_fields()}
    return sent | {"signatures": form.all("signatures")}


def api_members(form: Form) -> dict[str, Any]:
    """Return the fields as members of the API's document; None means the default.

    Raises InvalidInput for a field that is not the number or plan it should be.
    """
    return {
        "url": form.get("url", ""),
        "description": form.get("description", ""),
        "owner_emails": form.lines("owner_emails"),
        "verification": form.get("verification", "header"),
        "signatures": form.all("signatures"),
        "retry_plan": _plan(form),
        "timeout_seconds": form.number("timeout_seconds", pointer="/timeout_seconds"),
        "rate_limit_per_second": form.number(
            "rate_limit_per_second", pointer="/rate_limit_per_second"
        ),
        "max_in_flight": form.whole("max_in_flight", pointer="/max_in_flight"),
    }


def changes(members: Mapping[str, Any], endpoint: EndpointView) -> dict[str, Any]:
    """Return the merge patch with the members that differ from the stored endpoint: an unchanged
    URL is not verified again."""
    if endpoint.mode != "push":
        members = {name: members[name] for name in _POLLED_MEMBERS}
    return changed_members(members, endpoint)


def _plan(form: Form) -> str | dict[str, Any]:
    if form.get("plan", DEFAULT_PLAN) != CUSTOM:
        return form.get("plan", DEFAULT_PLAN)
    plan = form.json("own_plan", pointer="/retry_plan")
    if not isinstance(plan, dict):
        raise InvalidInput.at(
            "/retry_plan", 'a custom plan is JSON, such as {"delays_seconds": [5, 60, 600]}'
        )
    return plan


def _number_text(value: float | None) -> str:
    """Return the exact number, because the form saves again what it shows."""
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else repr(value)
