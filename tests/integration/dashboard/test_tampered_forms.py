"""A tampered form is rejected with its errors, and changes nothing."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from typing import Any

import httpx2
import pytest

from tests.integration.dashboard.page_paths import SHOWN
from tests.integration.dashboard.visitor import Visitor

pytestmark = pytest.mark.anyio

LONG = "9" * 5_000
DEEP = "[" * 60_000
NOT_JSON = ("NaN", "[1e999]", r'{"a": "\ud800"}', r'{"a": "\u0000"}', DEEP, '{"a": 1, "a": 2}')
ENDPOINT: dict[str, Any] = {
    "url": "http://127.0.0.1:4/hook",
    "verification": "none",
    "signatures": ["hook", "standard"],
    "plan": "hourly",
}
SOURCE: dict[str, Any] = {"name": "kept", "fact_window_seconds": "86400"}
TAMPERED: list[tuple[str, dict[str, Any], dict[str, tuple[str, ...]]]] = [
    (
        "/endpoints/{endpoint_id}/settings",
        ENDPOINT,
        {
            "timeout_seconds": ("nan", "1e999", LONG),
            "rate_limit_per_second": ("nan", "inf"),
            "max_in_flight": (LONG, "1.5"),
        },
    ),
    (
        "/endpoints/{endpoint_id}/settings",
        ENDPOINT | {"plan": "custom"},
        {"own_plan": (*NOT_JSON, '{"delays_seconds": [NaN]}', f'{{"delays_seconds": [{LONG}]}}')},
    ),
    ("/endpoints/{endpoint_id}/test", {}, {"type": ("a" * 5_000,)}),
    ("/endpoints/{endpoint_id}/recover", {}, {"since": ("", "x", "0001-01-01", LONG)}),
    (
        "/endpoints/{endpoint_id}/replay",
        {},
        {"since": ("x", LONG), "until": ("2026-11-24T14:00",), "event_type": ("Paid", LONG)},
    ),
    ("/endpoints/{endpoint_id}/subscriptions", {}, {"events": ("a" * 5_000,), "payload": ("x",)}),
    (
        "/sources/{source_id}/settings",
        SOURCE,
        {"options": NOT_JSON, "event_types": (*NOT_JSON, '["a"]')},
    ),
    (
        "/sources/{source_id}/settings",
        SOURCE | {"fact_expression": "id"},
        {
            "fact_window_seconds": (LONG, "", "1.5"),
            "fact_expression": (r"""{"github.push.received": "'\ud800'"}""", "{" + DEEP),
        },
    ),
    ("/event-types/new-type", {"name": "tampered.with.schema"}, {"schema": NOT_JSON}),
    (
        "/deliveries/actions",
        {"action": "resend", "to": "all"},
        {"rate_per_second": ("nan", "1e999"), "since": ("x",), "status": ("x",)},
    ),
    (
        "/dead-letters/redrive/run",
        {"to": "all"},
        {"rate_per_second": ("nan", "1e999"), "since": ("x",), "endpoint_id": ("x",)},
    ),
    ("/portal-links", {"span": "3600"}, {"scope": ("operator",), "endpoint_id": ("x",)}),
    ("/api-keys", {"name": "x", "scope": "emit"}, {"expires_at": ("x", "2026-13-01", LONG)}),
    ("/tenants", {}, {"name": ("", "a" * 5_000)}),
]


@pytest.mark.parametrize(
    ("path", "fields", "invalid"), TAMPERED, ids=[path for path, *_ in TAMPERED]
)
async def test_tampered_form_is_rejected_without_effect(
    operator: Visitor,
    client: httpx2.AsyncClient,
    owned: dict[str, str],
    path: str,
    fields: dict[str, Any],
    invalid: dict[str, tuple[str, ...]],
) -> None:
    about = [f"/endpoints/{owned['endpoint_id']}", f"/sources/{owned['source_id']}"]
    about += ["/event-types?limit=200"]
    before = [(await client.get(each)).json() for each in about]
    await operator.post("/dashboard/settings/tenant", tenant_id=owned["tenant_id"])
    try:
        for name, values in invalid.items():
            for value in values:
                given = fields | {name: value}
                answer = await operator.post(f"/dashboard{path.format(**owned)}", **given)
                assert answer.status_code == 422, f"{name}={value[:40]}: {answer.status_code}"
    finally:
        await operator.post("/dashboard/settings/tenant", tenant_id="")
    assert [(await client.get(each)).json() for each in about] == before


class Fields(HTMLParser):
    """Counts each field of each form of a page, except lists and buttons."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[Counter[str]] = []
        self._open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.forms.append(Counter())
            self._open = True
        elif self._open and tag in ("input", "select", "textarea"):
            name = given.get("name")
            if name is not None and name not in ("ids", "signatures"):
                self.forms[-1][name] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = False


async def test_no_form_has_a_field_twice(operator: Visitor, owned: dict[str, str]) -> None:
    """Repeated fields are rejected."""
    narrowed = {name: owned[name] for name in ("endpoint_id", "event_id", "tenant_id")}
    seen = 0
    for page in SHOWN:
        answer = await operator.get(page.at(owned), params=narrowed)
        for form in Fields(answer.text).forms:
            assert set(form.values()) <= {1}, f"{page}: {form}"
            seen += len(form)
    assert seen > 100
