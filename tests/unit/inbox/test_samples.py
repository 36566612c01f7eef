"""Samples: signed requests of the providers, with new ids each time."""

from __future__ import annotations

import json

import pytest

from hookfast.clock import rfc3339
from hookfast.errors import InvalidInput
from hookfast.events.event_type import matches
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


def suggested_key(one: Provider, event_type: str) -> str | None:
    keys = one.suggested_keys.items()
    return next((text for pattern, text in keys if matches(pattern, event_type)), None)


def sent(name: str) -> InboundRequest:
    signed = sample(name, provider=provider_of(name), secret=SECRET, now=NOW, url=URL)
    return received(signed.headers, signed.body)


@every_sample
def test_a_sample_becomes_the_event_of_its_name(name: str) -> None:
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
def test_repeated_samples_are_not_duplicates(name: str) -> None:
    one = provider_of(name)
    ids = {one.delivery_id(request, one.payload(request)) for request in (sent(name), sent(name))}
    assert len(ids) == 2
    assert None not in ids


@every_sample
def test_every_placeholder_of_a_sample_is_replaced(name: str) -> None:
    request = sent(name)
    text = request.body.decode() + str(request.headers.items())
    for placeholder in ("{id}", "{sha}", "{time}", "{unix}", "%7B"):
        assert placeholder not in text


@every_sample
def test_the_suggested_key_of_a_sample_has_a_result(name: str) -> None:
    one, request = provider_of(name), sent(name)
    payload = one.payload(request)
    suggested = suggested_key(one, one.event_type(request, payload))
    if suggested is not None:
        assert compile_expression(suggested, pointer="").key(payload) is not None


def test_pushes_releases_and_merge_requests_have_suggested_keys() -> None:
    for event in ("github.push.received", "github.release.published", "gitlab.push.received"):
        assert suggested_key(provider_of(event), event) is not None
    merge_request = suggested_key(provider("gitlab"), "gitlab.merge_request.updated")
    assert merge_request is not None
    assert "object_attributes.iid" in merge_request
    assert suggested_key(provider("github"), "github.star.created") is None


def test_the_times_of_a_sample_are_current_and_in_the_right_format() -> None:
    event = json.loads(sent("stripe.payment_intent.succeeded").body)
    assert event["created"] == TIME
    push = json.loads(sent("github.push").body)
    assert push["head_commit"]["timestamp"].startswith("2023-11-14T22:13:20")
    assert len(push["after"]) == 40


def test_an_unknown_sample_is_rejected_with_the_list_of_samples() -> None:
    with pytest.raises(InvalidInput, match=r"github\.push") as rejected:
        sample("github.star", provider=provider("github"), secret=SECRET, now=NOW, url=URL)
    assert rejected.value.code == "unknown_sample"


def test_sample_data_of_an_event_type_are_those_of_its_sample() -> None:
    data = [sample_data("github.push.received", now=NOW) or "" for _ in range(2)]
    assert {json.loads(one)["head_commit"]["timestamp"] for one in data} == {rfc3339(NOW)}
    assert data[0] != data[1]
    # not a provider's type, although a sample has this name
    assert sample_data("order.invoice.paid", now=NOW) is None


def test_a_sample_that_needs_options_has_no_event_type() -> None:
    assert type_of_sample("github.push") == "github.push.received"
    assert type_of_sample("generic.order.created") is None
    with pytest.raises(InvalidInput, match=r"github\.push"):
        type_of_sample("github.star")
