"""An endpoint's settings as the fields of a form. Settings without a field stay as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from api.forms.endpoint import EndpointView
from api.site.form import Form, changed_members, parse_number
from hookfast.deliveries.retry_plan import DEFAULT_PLAN, PRESETS
from hookfast.errors import InvalidInput
from hookfast.signing.signature import DEFAULT_PROFILES, Profile

CUSTOM: Final = "custom"
PLANS: Final = (*((name, name) for name in PRESETS), (CUSTOM, "custom plan"))
PROFILES: Final = tuple(profile.value for profile in Profile)
NUMBERS: Final = ("timeout_seconds", "rate_limit_per_second", "max_in_flight")
_CIRCUIT_NUMBERS: Final = ("failure_threshold", "min_span_seconds", "disable_after_seconds")


@dataclass(frozen=True, slots=True)
class Group:
    """Settings that the endpoint's page shows together and a form of their own changes."""

    name: str
    title: str
    members: tuple[str, ...]
    is_for_polled: bool = False


GROUPS: Final[Mapping[str, Group]] = {
    group.name: group
    for group in (
        Group("description", "Name", ("description",), is_for_polled=True),
        Group("url", "URL", ("url", "verification")),
        Group("signatures", "Signatures", ("signatures", "signature_hash")),
        Group("encryption", "Encryption", ("encryption",)),
        Group("retries", "Retries and timeout", ("retry_plan", "timeout_seconds")),
        Group("limits", "Limits", ("rate_limit_per_second", "max_in_flight")),
        Group("order", "Order", ("ordered",)),
        Group("circuit", "Circuit", ("circuit",)),
        Group("networks", "Allowed networks", ("allowed_networks",)),
        Group("headers", "Custom headers", ("headers",)),
        Group("owners", "Owner emails", ("owner_emails",), is_for_polled=True),
    )
}
FORM: Final = (
    *("url", "description", "owner_emails", "verification", "signatures", "retry_plan"),
    *("timeout_seconds", "rate_limit_per_second", "max_in_flight", "ordered"),
)
"""The members in the form of a new endpoint, and in the form with many settings."""


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
        "ordered": "",
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
        "ordered": "yes" if endpoint.ordered else "",
        **{name: _number_text(getattr(endpoint, name)) for name in NUMBERS},
        "signature_hash": endpoint.signature_hash,
        "encryption": ""
        if endpoint.encryption is None
        else json.dumps(endpoint.encryption.model_dump(), indent=2),
        "allowed_networks": "\n".join(endpoint.allowed_networks),
        "headers": "",
        "remove": [],
        **{name: _number_text(endpoint.circuit.get(name)) for name in _CIRCUIT_NUMBERS},
        "probe_delays_seconds": ", ".join(
            _number_text(each) for each in endpoint.circuit.get("probe_delays_seconds", ())
        ),
    }


def submitted_fields(form: Form) -> dict[str, Any]:
    """Return the submitted fields, to show them again beside the errors."""
    names = (*new_fields(), "signature_hash", "encryption", "allowed_networks", "headers")
    sent = {name: form.get(name, "") for name in (*names, *_CIRCUIT_NUMBERS)}
    return sent | {
        "probe_delays_seconds": form.get("probe_delays_seconds", ""),
        "signatures": form.all("signatures"),
        "remove": form.all("remove"),
    }


def api_members(form: Form, names: Iterable[str] = FORM) -> dict[str, Any]:
    """Return these members of the API's document from the fields; None means the default.

    Raises InvalidInput for a field that is not the number, plan or JSON that it should be.
    """
    return {name: _READ[name](form) for name in names}


def changes(members: Mapping[str, Any], endpoint: EndpointView) -> dict[str, Any]:
    """Return the merge patch with the members that differ from the stored endpoint: an unchanged
    URL is not verified again."""
    if endpoint.mode != "push":
        members = {name: members[name] for name in members.keys() & _POLLED_MEMBERS}
    others = {name: value for name, value in members.items() if name != "headers"}
    patch = changed_members(others, endpoint)
    # the stored values are not shown, so what is given is a change
    return patch | ({"headers": members["headers"]} if members.get("headers") else {})


_POLLED_MEMBERS: Final = frozenset(
    name for group in GROUPS.values() if group.is_for_polled for name in group.members
)
"""The others are about requests."""


def _circuit(form: Form) -> dict[str, Any]:
    """Return the endpoint's own values; those left empty are the server's."""
    given: dict[str, Any] = {
        "failure_threshold": form.whole("failure_threshold", pointer="/circuit/failure_threshold"),
        "min_span_seconds": form.number("min_span_seconds", pointer="/circuit/min_span_seconds"),
        "disable_after_seconds": form.number(
            "disable_after_seconds", pointer="/circuit/disable_after_seconds"
        ),
    }
    delays = form.get("probe_delays_seconds", "").replace(",", " ").split()
    try:
        given["probe_delays_seconds"] = [parse_number(each) for each in delays] or None
    except ValueError:
        raise InvalidInput.at(
            "/circuit/probe_delays_seconds", "give seconds, such as 60, 120, 300"
        ) from None
    return {name: value for name, value in given.items() if value is not None}


def _headers(form: Form) -> dict[str, str | None]:
    """Return the headers to set, and None for those to remove."""
    changed: dict[str, str | None] = dict.fromkeys(form.all("remove"))
    for line in form.lines("headers"):
        name, colon, value = line.partition(":")
        if not colon:
            raise InvalidInput.at("/headers", "each line is a name, a colon and a value")
        changed[name.strip()] = value.strip()
    return changed


def _plan(form: Form) -> str | dict[str, Any]:
    if form.get("plan", DEFAULT_PLAN) != CUSTOM:
        return form.get("plan", DEFAULT_PLAN)
    plan = form.json("own_plan", pointer="/retry_plan")
    if not isinstance(plan, dict):
        raise InvalidInput.at(
            "/retry_plan", 'a custom plan is JSON, such as {"delays_seconds": [5, 60, 600]}'
        )
    return plan


_READ: Final[Mapping[str, Callable[[Form], Any]]] = {
    "url": lambda form: form.get("url", ""),
    "description": lambda form: form.get("description", ""),
    "owner_emails": lambda form: form.lines("owner_emails"),
    "verification": lambda form: form.get("verification", "header"),
    "signatures": lambda form: form.all("signatures"),
    "signature_hash": lambda form: form.get("signature_hash", "sha256"),
    "encryption": lambda form: form.json("encryption", pointer="/encryption"),
    "retry_plan": _plan,
    "timeout_seconds": lambda form: form.number("timeout_seconds", pointer="/timeout_seconds"),
    "rate_limit_per_second": lambda form: form.number(
        "rate_limit_per_second", pointer="/rate_limit_per_second"
    ),
    "max_in_flight": lambda form: form.whole("max_in_flight", pointer="/max_in_flight"),
    "ordered": lambda form: form.get("ordered", "") == "yes",
    "circuit": _circuit,
    "allowed_networks": lambda form: form.lines("allowed_networks"),
    "headers": _headers,
}


def _number_text(value: float | None) -> str:
    """Return the exact number, because the form saves again what it shows."""
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else repr(value)
