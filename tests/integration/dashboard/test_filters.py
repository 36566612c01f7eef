"""Filters that cannot be right."""

from __future__ import annotations

import httpx2
import pytest

from tests.integration.dashboard.visitor import Visitor, text_of

pytestmark = pytest.mark.anyio

THREE_PARTS = "An event type is three parts joined by dots"
WHOLE = "A whole id is {}_ and 32 digits and letters."
SHORTENED = "Lists show this id shortened"


@pytest.mark.parametrize(
    ("path", "name", "value", "told"),
    [
        ("deliveries", "event_type", "paid", THREE_PARTS),
        ("deliveries", "endpoint_id", "ep_1", WHOLE.format("ep")),
        ("deliveries", "endpoint_id", "ep_…0123abcd", SHORTENED),
        ("deliveries", "event_id", "Invoice 7", WHOLE.format("evt")),
        ("dead-letters", "event_type", "paid", THREE_PARTS),
        ("dead-letters", "endpoint_id", "ep_…0123abcd", SHORTENED),
        ("events", "type", "paid", THREE_PARTS),
        ("events", "find", "evt_…0123abcd", SHORTENED),
        ("inbox", "key", "id:1", "because keys are per source"),
        ("audit", "key_id", "key_1", WHOLE.format("key")),
        ("audit", "resource_id", "ep_…0123abcd", SHORTENED),
    ],
)
async def test_a_filter_that_cannot_be_right_is_told_of_beside_its_field(
    operator: Visitor, owned: dict[str, str], path: str, name: str, value: str, told: str
) -> None:
    answer = await operator.get(f"/dashboard/{path}", params={name: value, "within": "24h"})
    assert answer.status_code == 422
    assert told in text_of(answer.text)
    assert f'name="{name}" value="{value}"' in answer.text  # to be mended
    if path != "inbox":
        assert '<option value="24h" selected>' in answer.text  # the others stay
    assert "^" not in text_of(answer.text)  # no pattern
    # nothing to be taken for what was looked for, and acted on
    for mine in ("delivery_id", "inbox_id", "event_id"):
        assert owned[mine] not in answer.text
    assert 'value="all"' not in answer.text


async def test_several_wrong_filters_are_told_of_at_once(
    operator: Visitor, owned: dict[str, str]
) -> None:
    given = {"event_type": "paid", "endpoint_id": "ep_1", "event_id": owned["event_id"]}
    told = (answer := await operator.get("/dashboard/deliveries", params=given)).text
    assert answer.status_code == 422
    assert text_of(told).count("A whole id is ep_") == 1
    assert THREE_PARTS in text_of(told)
    assert f'value="{owned["event_id"]}"' in told
    assert told.count('aria-invalid="true"') == 2


async def test_what_no_form_of_ours_sends_is_a_page_of_its_own(operator: Visitor) -> None:
    for query in ("status=lost", "event_type=paid&within=1y", "cursor=x"):
        answer = await operator.get(f"/dashboard/deliveries?{query}")
        assert answer.status_code == 422
        assert "Invalid input" in answer.text


async def test_a_filter_that_fits_nothing_is_not_wrong(
    operator: Visitor, client: httpx2.AsyncClient
) -> None:
    answer = await operator.get("/dashboard/events?find=order 4711")
    assert answer.status_code == 200
    assert "No event has this id" in answer.text
