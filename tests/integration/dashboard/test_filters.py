"""Invalid filters of lists."""

from __future__ import annotations

import httpx2
import pytest

from tests.integration.dashboard.visitor import Visitor, text_of

pytestmark = pytest.mark.anyio

NO_TYPE = "No event type has this name, or this as a part of it."
WHOLE = "A whole id is {}_ and 32 digits and letters."
SHORTENED = "Lists show this id shortened"


@pytest.mark.parametrize(
    ("path", "name", "value", "message"),
    [
        ("deliveries", "event_type", "payed", NO_TYPE),
        ("deliveries", "endpoint_id", "ep_1", "No endpoint has this name"),
        ("deliveries", "endpoint_id", "ep_…0123abcd", SHORTENED),
        ("deliveries", "answer", "often", "Unknown answer; use a status code such as 503"),
        ("dead-letters", "answer", "6xx", "Unknown answer; use a status code such as 503"),
        ("deliveries", "event_id", "Invoice 7", WHOLE.format("evt")),
        ("dead-letters", "event_type", "payed", NO_TYPE),
        ("dead-letters", "endpoint_id", "ep_…0123abcd", SHORTENED),
        ("events", "type", "payed", NO_TYPE),
        ("events", "find", "evt_…0123abcd", SHORTENED),
        ("inbox", "key", "id:1", "because keys are per source"),
        ("audit", "key_id", "key_1", "No API key has this name"),
        ("audit", "resource_id", "ep_…0123abcd", SHORTENED),
        ("audit", "since", "yesterday", "This is not a time such as"),
        ("inbox", "until", "2026-02-30T10:00", "There is no such time."),
    ],
)
async def test_invalid_filter_shows_its_error_and_no_rows(
    operator: Visitor, owned: dict[str, str], path: str, name: str, value: str, message: str
) -> None:
    answer = await operator.get(f"/dashboard/{path}", params={name: value, "within": "24h"})
    assert answer.status_code == 422
    assert message in text_of(answer.text)
    assert f' name="{name}" value="{value}"' in answer.text  # to be corrected
    assert 'name="within" value="24h"' in answer.text  # the other filters stay
    assert "^" not in text_of(answer.text)  # no regular expression
    # no rows that could be taken for matches, and acted on
    for mine in ("delivery_id", "inbox_id", "event_id"):
        assert owned[mine] not in answer.text
    assert 'value="all"' not in answer.text


async def test_all_invalid_filters_are_reported_together(
    operator: Visitor, owned: dict[str, str]
) -> None:
    given = {"event_type": "payed", "endpoint_id": "ep_1", "event_id": owned["event_id"]}
    page = (answer := await operator.get("/dashboard/deliveries", params=given)).text
    assert answer.status_code == 422
    assert text_of(page).count("No endpoint has this name") == 1
    assert NO_TYPE in text_of(page)
    assert f'value="{owned["event_id"]}"' in page
    assert page.count('aria-invalid="true"') == 2


async def test_query_that_no_form_sends_answers_an_error_page(operator: Visitor) -> None:
    for query in ("status=lost", "event_type=payed&within=1y", "cursor=x"):
        answer = await operator.get(f"/dashboard/deliveries?{query}")
        assert answer.status_code == 422
        assert "Invalid input" in answer.text


async def test_valid_filter_without_matches_is_not_an_error(
    operator: Visitor, client: httpx2.AsyncClient
) -> None:
    answer = await operator.get("/dashboard/events?find=order 4711")
    assert answer.status_code == 200
    assert "No event has this id" in answer.text
