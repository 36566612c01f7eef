"""Verified requests: what they become if they passed too many sources, or cannot be read."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest

from hookfast.events.hops import MAX_HOPS
from hookfast.inbox import PROVIDERS, RequestRejected, TooManyHops, compile_expression, provider
from hookfast.inbox.idempotency_key import BusinessKeys
from hookfast.inbox.provider import Provider, Unsigned
from hookfast.inbox.verified_request import SourceRules, VerifiedRequest, verify_and_parse
from tests.unit.inbox.requests import FORM, JSON, NOW, URL, received

SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"
GITHUB = provider("github", {})
RULES = SourceRules(
    event_types={}, id_expression=None, business_keys=None, business_window=timedelta()
)
OPTIONS: dict[str, dict[str, Any]] = {"generic": {"signature_header": "X-Signature"}}
UNREADABLE = [
    b"",
    b"not JSON",
    b'{"id": 1, "id": 2}',
    b'{"n": NaN}',
    '{"ö": 1}'.encode("latin-1"),
    '{"n": 1}'.encode("utf-16"),
    b"\x1f\x8b\x08\x00",
]


def verified(
    body: bytes,
    *,
    bound: Provider = GITHUB,
    rules: SourceRules = RULES,
    content_type: str = JSON,
    secret: str = SECRET,
    **headers: str,
) -> VerifiedRequest:
    unsigned = Unsigned(body=body, content_type=content_type, url=URL, id="7", at=NOW)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = received(bound.sign(unsigned, secret=secret) | named, body, content_type=content_type)
    found = verify_and_parse(bound, request, rules=rules, secrets=[SECRET], now=NOW)
    assert isinstance(found, VerifiedRequest)
    return found


@pytest.mark.parametrize("body", UNREADABLE)
def test_unreadable_body_is_identified_by_the_delivery_id_and_has_an_error(body: bytes) -> None:
    found = verified(body, X_GitHub_Delivery="d1", X_GitHub_Event="push")
    assert found.error is not None
    assert found.error.code == "unreadable_payload"
    assert found.error.message.startswith("The body cannot be read: ")
    assert (found.key, found.event_type) == ("id:d1", "github.push.received")
    assert (found.data, found.value, found.business_key) == ("", None, None)
    assert found.sha256 == hashlib.sha256(body).hexdigest()


def test_unreadable_form_has_an_error() -> None:
    found = verified(b"payload=%7B", content_type=FORM)
    assert found.error is not None
    assert found.content_type == FORM


def test_unreadable_body_without_a_delivery_id_is_identified_by_its_hash() -> None:
    always = compile_expression("'always'", pointer="")
    rules = SourceRules(
        event_types={},
        id_expression=always,
        business_keys=BusinessKeys((("**", always),)),
        business_window=timedelta(hours=1),
    )
    found = verified(b"{", rules=rules)
    assert found.key == f"sha256:{hashlib.sha256(b'{').hexdigest()}"
    assert found.business_key is None
    assert verified(b"{}", rules=rules).key == "key:always"


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_every_provider_names_an_event_whose_body_cannot_be_read(name: str) -> None:
    kind = FORM if name == "twilio" else JSON
    found = verified(b"{", bound=provider(name, OPTIONS.get(name, {})), content_type=kind)
    assert found.error is not None
    assert len(found.event_type.split(".")) == 3


@pytest.mark.parametrize("body", [b"Body=%00", b"Body=%FF&To=a", b"Body", b"\xff"])
def test_twilios_signature_is_verified_before_its_form_is_parsed(body: bytes) -> None:
    twilio = provider("twilio", {})
    found = verified(body, bound=twilio, content_type=FORM)
    assert found.error is not None
    with pytest.raises(RequestRejected):
        verified(body, bound=twilio, content_type=FORM, secret=f"{SECRET[:-1]}Z")


@pytest.mark.parametrize(("sent", "hops"), [("0", 1), ("-1", 1), ("1", 2), ("4", MAX_HOPS)])
def test_event_has_one_more_hop_than_its_request(sent: str, hops: int) -> None:
    assert verified(b"{}", x_HOOK_hops=sent).hops == hops
    assert verified(b"{}").hops == 1


@pytest.mark.parametrize("body", [b"{}", b"{"])
def test_request_with_too_many_hops_is_rejected_whatever_its_body(body: bytes) -> None:
    with pytest.raises(
        TooManyHops, match="passed 5 sources before this one, and 5 in all"
    ) as found:
        verified(body, X_Hook_Hops=str(MAX_HOPS))
    assert (found.value.code, found.value.hops) == ("too_many_hops", 6)


def test_signature_is_checked_before_hops_and_body() -> None:
    for body in (b"{}", b"{"):
        with pytest.raises(RequestRejected):
            verified(body, secret=f"{SECRET[:-1]}Z", X_Hook_Hops="99")
