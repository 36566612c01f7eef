"""Verified requests: what they become if they passed too many sources, or are not JSON."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from datetime import timedelta
from typing import Any

import pytest

from hookfast.events.hops import MAX_HOPS
from hookfast.inbox import (
    PROVIDERS,
    RequestRejected,
    TooManyHops,
    UnsupportedContentType,
    compile_expression,
    provider,
)
from hookfast.inbox.form import MAX_FIELDS
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


@pytest.mark.parametrize(
    ("body", "content_type", "kept"),
    [
        (b"", JSON, {"text": ""}),
        (b"not JSON\r\n\t", JSON, {"text": "not JSON\r\n\t"}),
        (b'{"n": NaN}', JSON, {"text": '{"n": NaN}'}),
        (b'{"a":' * 201, JSON, {"text": '{"a":' * 201}),
        ("\ufeff<ü/>".encode("utf-16"), JSON, {"text": "\ufeff<ü/>"}),
        (b"f\xfcr", f"{JSON}; charset=iso-8859-1", {"text": "für"}),
        (b"f\xfcr", f"{JSON}; charset=utf-8", {"base64": "Zvxy"}),
        (b"\x1f\x8b\x08\x00", JSON, {"base64": "H4sIAA=="}),
        (b"a\x00b", JSON, {"base64": "YQBi"}),
        (b"&" * MAX_FIELDS, FORM, {"text": "&" * MAX_FIELDS}),
    ],
)
def test_body_that_is_not_json_is_kept_as_text_or_bytes_and_marked(
    body: bytes, content_type: str, kept: dict[str, str]
) -> None:
    found = verified(body, content_type=content_type, X_GitHub_Delivery="d1", X_GitHub_Event="push")
    assert (found.key, found.any_body, found.business_key) == ("id:d1", False, None)
    assert (found.event_type, found.content_type) == ("github.push.received", content_type)
    assert found.sha256 == hashlib.sha256(body).hexdigest()
    data = json.loads(found.data)
    assert data == found.value
    assert data["unparsed"].pop("reason")
    assert data == {"unparsed": kept}


def test_reason_why_a_body_is_not_json_contains_nothing_of_it() -> None:
    found = json.loads(verified(b'{"secret-name": s3cret}').data)["unparsed"]
    assert found["reason"] == "the body is not JSON: Expecting value at line 1, column 17"


@pytest.mark.parametrize("content_type", [JSON, FORM])
def test_compressed_body_is_kept_as_bytes_that_say_so(content_type: str) -> None:
    body = gzip.compress(b'{"a": 1}')
    found = verified(body, content_type=content_type, Content_Encoding="gzip")
    assert ("Content-Encoding", "gzip") in found.headers
    assert json.loads(found.data)["unparsed"] == {
        "reason": "the body is compressed (Content-Encoding), which Hookfast does not undo",
        "base64": base64.b64encode(body).decode(),
    }


def test_form_in_the_coding_identity_is_read() -> None:
    assert verified(b"a=1", content_type=FORM, Content_Encoding="Identity").value == {"a": "1"}


@pytest.mark.parametrize("coding", ["identity", "Identity", "gzip"])
def test_body_that_is_json_is_read_whatever_its_content_encoding(coding: str) -> None:
    assert verified(b'{"a": 1}', Content_Encoding=coding).value == {"a": 1}


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", FORM + "x"])
def test_content_type_is_checked_after_the_signature(content_type: str) -> None:
    with pytest.raises(UnsupportedContentType):
        verified(b"{}", content_type=content_type)
    with pytest.raises(RequestRejected):
        verified(b"{}", content_type=content_type, secret=f"{SECRET[:-1]}Z")


def test_request_without_a_content_type_is_forwarded_as_octets() -> None:
    found = verified(b'{"a": 1}', content_type="")
    assert (found.content_type, found.value) == ("application/octet-stream", {"a": 1})


def test_body_that_is_not_json_has_no_key_of_an_expression() -> None:
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
    read = verified(b"{}", rules=rules)
    assert (read.key, read.any_body) == ("key:always", True)


@pytest.mark.parametrize("name", sorted({*PROVIDERS} - {"twilio"}))  # it signs only forms
def test_every_provider_names_an_event_whose_body_is_not_json(name: str) -> None:
    found = verified(b"{", bound=provider(name, OPTIONS.get(name, {})))
    assert "unparsed" in found.data
    assert len(found.event_type.split(".")) == 3


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"Body=%00", {"Body": "\0"}),
        (b"Body=%FF&To=a", {"Body": "\ufffd", "To": "a"}),
        (b"&Body&", {"Body": ""}),
        (b"\xff", {"\ufffd": ""}),
        (b"&".join(b"a%d=1" % n for n in range(1_001)), {f"a{n}": "1" for n in range(1_001)}),
    ],
)
def test_twilios_signature_is_verified_before_its_form_is_decoded(
    body: bytes, value: dict[str, str]
) -> None:
    twilio = provider("twilio", {})
    found = verified(body, bound=twilio, content_type=FORM)
    assert (json.loads(found.data), found.value) == (value, value)
    with pytest.raises(RequestRejected):
        verified(body, bound=twilio, content_type=FORM, secret=f"{SECRET[:-1]}Z")


@pytest.mark.parametrize(
    ("sent", "hops"), [("0", 1), ("1", 2), ("4", MAX_HOPS), ("1, 4", MAX_HOPS)]
)
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
