"""Samples: requests as the providers would send them, new each time."""

from __future__ import annotations

import json

import pytest

from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput
from hookfast.inbox import InboundRequest, Provider, provider
from hookfast.inbox.expression import compile_expression
from hookfast.inbox.samples import SAMPLE_NAMES, sample, sample_data, type_of_sample
from tests.unit.inbox.requests import ACCEPTED, NOW, TIME, URL, b64, outcome, received

SECRET = "whsec_" + b64(b"current!" * 4)
every_sample = pytest.mark.parametrize("name", SAMPLE_NAMES)


def provider_of(name: str) -> Provider:
    kind = name.partition(".")[0]
    options = {"signature_header": "X-S", "id_expression": "id", "type_expression": "type"}
    return provider(kind, options if kind == "generic" else {})


def sent(name: str) -> InboundRequest:
    signed = sample(name, provider=provider_of(name), secret=SECRET, now=NOW, url=URL)
    return received(signed.headers, signed.body)


@every_sample
def test_a_sample_is_taken_for_what_it_is_called(name: str) -> None:
    one, request = provider_of(name), sent(name)
    one.check_content_type(request)
    assert outcome(one, request, SECRET) == ACCEPTED
    payload = one.payload(request)
    assert one.answer(request, payload) is None
    kind, _, event = name.partition(".")
    *nouns, verb = event.split(".")
    expected = {
        event,  # `hook` keeps the type
        f"{kind}.{event}",
        f"{kind}.{event}.received",
        f"{kind}.{'_'.join(nouns)}.{verb}",
    }
    assert one.event_type(request, payload) in expected


@every_sample
def test_a_sample_is_no_duplicate_of_the_one_before(name: str) -> None:
    one = provider_of(name)
    ids = {one.delivery_id(request, one.payload(request)) for request in (sent(name), sent(name))}
    assert len(ids) == 2
    assert None not in ids


@every_sample
def test_no_placeholder_is_left(name: str) -> None:
    request = sent(name)
    text = request.body.decode() + str(request.headers.items())
    for placeholder in ("{id}", "{sha}", "{time}", "{unix}", "%7B"):
        assert placeholder not in text


@every_sample
def test_the_suggested_key_names_the_fact_in_a_sample(name: str) -> None:
    one, request = provider_of(name), sent(name)
    payload = one.payload(request)
    suggested = one.suggested_key(one.event_type(request, payload))
    if suggested is not None:
        assert compile_expression(suggested, pointer="").key(payload) is not None


def test_pushes_releases_and_merge_requests_have_suggested_keys() -> None:
    for event in ("github.push.received", "github.release.published", "gitlab.push.received"):
        assert provider_of(event).suggested_key(event) is not None
    merge_request = provider("gitlab").suggested_key("gitlab.merge_request.updated")
    assert merge_request is not None
    assert "object_attributes.iid" in merge_request
    assert provider("github").suggested_key("github.star.created") is None


def test_times_are_of_now_and_of_the_right_kind() -> None:
    event = json.loads(sent("stripe.payment_intent.succeeded").body)
    assert event["created"] == TIME
    push = json.loads(sent("github.push").body)
    assert push["head_commit"]["timestamp"].startswith("2023-11-14T22:13:20")
    assert len(push["after"]) == 40


def test_a_name_that_is_none_is_answered_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"github\.push") as refused:
        sample("github.star", provider=provider("github"), secret=SECRET, now=NOW, url=URL)
    assert refused.value.code == "unknown_sample"


def test_a_public_key_cannot_sign_a_sample() -> None:
    with pytest.raises(InvalidInput) as refused:
        sample(
            "standard.invoice.paid",
            provider=provider("standard"),
            secret="whpk_" + b64(b"p" * 32),
            now=NOW,
            url=URL,
        )
    assert refused.value.code == "invalid_secret"


def test_the_data_of_a_type_are_those_of_the_sample_that_becomes_it() -> None:
    data = [sample_data("github.push.received", now=NOW) or "" for _ in range(2)]
    assert {json.loads(one)["head_commit"]["timestamp"] for one in data} == {rfc3339(NOW)}
    assert data[0] != data[1]
    # a type of the platform's own, though a sample is called so too
    assert sample_data("order.invoice.paid", now=NOW) is None


def test_what_needs_options_has_no_type_of_its_own() -> None:
    assert type_of_sample("github.push") == "github.push.received"
    assert type_of_sample("generic.order.created") is None
    with pytest.raises(InvalidInput, match=r"github\.push"):
        type_of_sample("github.star")
