"""Every provider: requests that it signed are accepted, and changed ones are rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import InvalidInput
from hookfast.events.event_type import parse_event_type, parse_pattern
from hookfast.inbox import PROVIDERS, InboundRequest, Provider, UnsupportedContentType, provider
from hookfast.inbox.body_hmac import BodyHmac
from hookfast.inbox.expression import compile_expression
from hookfast.inbox.provider import Unsigned
from hookfast.inbox.samples import SAMPLE_NAMES, sample, sample_names, unsigned_sample
from hookfast.inbox.verified_request import read_payload
from hookfast.strict_json.parser import JsonValue
from hookfast.strict_json.text import from_text
from tests.unit.inbox.requests import ACCEPTED, FORM, JSON, NOW, URL, at, b64, outcome, received


@dataclass(frozen=True)
class Case:
    """A way to sign. `signed` are the headers that are needed to verify a request."""

    name: str
    signed: tuple[str, ...]
    secret: str = "whsec_" + b64(b"current!" * 4)
    other: str = "whsec_" + b64(b"previous" * 4)
    options: dict[str, Any] = field(default_factory=dict)
    body_is_signed: bool = True

    @property
    def provider(self) -> Provider:
        return provider(self.name, self.options)


STANDARD_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
TEXT = {"secret": "the current secret of it", "other": "the previous secret of it"}
GENERIC = {
    "signature_header": "X-Signature",
    "timestamp_header": "X-Time",
    "id_header": "X-Id",
    "message": "{id}.{timestamp}.{body}",
    "type_expression": "type",
}
CASES = [
    *(
        Case(name, one.scheme.signature_headers[:1], **TEXT)
        for name, one in PROVIDERS.items()
        if issubclass(one, BodyHmac)
    ),
    Case("generic", ("X-Signature", "X-Time", "X-Id"), options=GENERIC, **TEXT),
    Case("github", ("X-Hub-Signature-256",), **TEXT),
    Case("github", ("X-Hub-Signature-256",), options={"allow_sha1": True}, **TEXT),
    Case("gitlab", STANDARD_HEADERS),
    Case("gitlab", ("X-Gitlab-Token",), body_is_signed=False, **TEXT),
    Case("hook", STANDARD_HEADERS),
    Case(
        "hook",
        ("X-Hook-Id", "X-Hook-Timestamp", "X-Hook-Signature"),
        options={"profiles": ["hook"]},
    ),
    Case("slack", ("X-Slack-Signature", "X-Slack-Request-Timestamp"), **TEXT),
    Case("standard", STANDARD_HEADERS),
    Case("stripe", ("Stripe-Signature",)),
    Case("twilio", ("X-Twilio-Signature",), **TEXT),
]
every_case = pytest.mark.parametrize("case", CASES, ids=[f"{c.name}-{c.signed[-1]}" for c in CASES])


def sample_of(case: Case, *, secret: str | None = None) -> InboundRequest:
    """Return a signed sample of this provider, a form if it has one."""
    names = sorted(sample_names(case.name), key=lambda name: unsigned_sample(name).content_type)
    signed = sample(
        names[-1], provider=case.provider, secret=secret or case.secret, now=NOW, url=URL
    )
    return received(signed.headers, signed.body)


def changed(request: InboundRequest, name: str, *values: str) -> InboundRequest:
    """Return the request with other values of this header."""
    kept = [pair for pair in request.headers.items() if pair[0].lower() != name.lower()]
    return received([*kept, *((name, value) for value in values)], request.body)


def test_every_provider_has_a_case_and_two_samples() -> None:
    assert {case.name for case in CASES} == set(PROVIDERS)
    for name in PROVIDERS:
        assert sum(one.startswith(f"{name}.") for one in SAMPLE_NAMES) >= 2


@every_case
def test_a_request_signed_by_the_provider_is_accepted(case: Case) -> None:
    case.provider.check_secret(case.secret, pointer="/secrets/0")
    assert outcome(case.provider, sample_of(case), case.secret) == ACCEPTED


@every_case
def test_the_current_and_the_previous_secret_are_both_accepted(case: Case) -> None:
    for secret in (case.secret, case.other):
        request = sample_of(case, secret=secret)
        assert outcome(case.provider, request, case.secret, case.other) == ACCEPTED
        assert outcome(case.provider, request, case.other, case.secret) == ACCEPTED


@every_case
def test_a_signature_by_another_secret_is_rejected(case: Case) -> None:
    request = sample_of(case, secret=case.other)
    assert outcome(case.provider, request, case.secret) == "signature_mismatch"


@every_case
@pytest.mark.parametrize("secrets", [(), ("",), (" ", "\n")])
def test_every_request_is_rejected_without_a_secret(case: Case, secrets: tuple[str, ...]) -> None:
    # GitLab's signature needs a signing token
    assert outcome(case.provider, sample_of(case), *secrets) in {
        "secret_missing",
        "signature_not_accepted",
    }


@every_case
def test_every_signed_header_must_be_present_once_and_unchanged(case: Case) -> None:
    request = sample_of(case)
    for name in case.signed:
        value = request.headers.only(name)
        assert value is not None
        without = changed(request, name)
        assert outcome(case.provider, without, case.secret) == "signature_missing"
        for values in [("",), (value, value), (value, value[:-1]), (f"{value[:-1]}\u00e9",)]:
            other = changed(request, name, *values)
            assert outcome(case.provider, other, case.secret) == "signature_malformed"
        if name != "X-Hook-Id":  # the profile `hook` does not sign this id
            for other in (value[:-1], value + "0", f"x{value}"):
                assert outcome(case.provider, changed(request, name, other), case.secret) != (
                    ACCEPTED
                )


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if any("time" in name.lower() for name in case.signed)]
    + [case for case in CASES if case.name == "stripe"],
    ids=lambda case: f"{case.name}-{case.signed[-1]}",
)
def test_a_signed_time_must_be_within_the_tolerance(case: Case) -> None:
    request = sample_of(case)
    for seconds, code in [
        (300, ACCEPTED),
        (301, "timestamp_out_of_tolerance"),
        (-300, ACCEPTED),
        (-301, "timestamp_out_of_tolerance"),
    ]:
        assert outcome(case.provider, request, case.secret, now=at(seconds)) == code


@every_case
def test_header_names_ignore_case(case: Case) -> None:
    request = sample_of(case)
    upper = received([(n.upper(), v) for n, v in request.headers.items()], request.body)
    assert outcome(case.provider, upper, case.secret) == ACCEPTED


@pytest.mark.parametrize("case", [c for c in CASES if c.body_is_signed], ids=lambda c: c.name)
def test_another_body_is_rejected(case: Case) -> None:
    request = sample_of(case)
    for body in (b"", request.body + b" ", request.body[:-1], b"\xff\xfe", request.body * 2):
        other = received(request.headers.items(), body)
        assert outcome(case.provider, other, case.secret) == "signature_mismatch"


signed_cases = st.sampled_from([case for case in CASES if case.body_is_signed])


@given(case=signed_cases, place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_one_changed_byte_is_rejected(case: Case, place: float, bits: int) -> None:
    request = sample_of(case)
    body = bytearray(request.body)
    body[int(place * len(body))] ^= bits
    other = received(request.headers.items(), bytes(body))
    if outcome(case.provider, other, case.secret) == ACCEPTED:
        # Twilio signs the fields, and %2b is another spelling of the same field as %2B
        assert case.name == "twilio"
        assert case.provider.payload(other) == case.provider.payload(request)


names = st.sampled_from(
    sorted(
        {name for case in CASES for name in case.signed}
        | {"X-Hub-Signature", "X-Forgejo-Signature", "X-Webhook-Signature", "X-Webhook-Nonce"}
    )
)
forged = (
    st.text(max_size=80)
    | st.sampled_from(["", "v1,", "v0=", "sha256=", "sha1=", "t=1,v1=", "t=1700000000,v1="])
    | st.from_regex(r"(sha256=|v0=|v1,|t=1700000000,v1=|)[0-9a-f]{40,64}", fullmatch=True)
    | st.from_regex(r"(v1,|)[A-Za-z0-9+/]{27,43}=", fullmatch=True)
    | st.from_regex(r"1[67][0-9]{8}", fullmatch=True)
)


@given(
    case=st.sampled_from(CASES),
    headers=st.lists(st.tuples(names, forged), max_size=8),
    body=st.binary(max_size=60),
    url=st.just(URL) | st.text(max_size=40),
    content_type=st.sampled_from([JSON, FORM]),
)
def test_every_forged_request_is_rejected_without_another_error(
    case: Case, headers: list[tuple[str, str]], body: bytes, url: str, content_type: str
) -> None:
    request = received(headers, body, url=url, content_type=content_type)
    assert outcome(case.provider, request, case.secret, case.other, "") != ACCEPTED


@given(case=st.sampled_from(CASES), secret=st.text(max_size=40))
def test_any_other_secret_verifies_nothing_and_raises_no_other_error(
    case: Case, secret: str
) -> None:
    assert outcome(case.provider, sample_of(case), secret) != ACCEPTED
    assert outcome(case.provider, sample_of(case), secret, case.secret) == ACCEPTED


MEMBERS = sorted(
    {"action", "type", "event", "subtype", "object_kind", "object_attributes", "id", "status"}
    | {"command", "challenge", "event_id", "MessageSid", "MessageStatus", "CallSid", "EventType"}
    | {"trigger_id", "SequenceNumber", "event_name", "build_status"}
)
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(MEMBERS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=10,
)
event_headers = st.sampled_from(
    sorted(
        {"X-GitHub-Event", "X-Gitlab-Event", "X-Shopify-Topic", "X-Event-Key", "X-Gitea-Event"}
        | {"X-Forgejo-Event", "X-Hook-Topic", "X-GitHub-Delivery", "webhook-id", "X-Request-UUID"}
        | {"Idempotency-Key", "X-Shopify-Event-Id", "I-Twilio-Idempotency-Token", "X-Id"}
        | {"X-Gitea-Delivery", "Content-Type"}
    )
)


@given(
    case=st.sampled_from(CASES),
    headers=st.lists(
        st.tuples(event_headers, st.text(max_size=300)),
        max_size=6,
        unique_by=lambda header: header[0],
    ),
    payload=json_values,
)
def test_any_request_has_a_valid_event_type_and_a_usable_delivery_id_or_none(
    case: Case, headers: list[tuple[str, str]], payload: JsonValue
) -> None:
    request = received(headers, content_type=None)
    name = case.provider.event_type(request, payload)
    assert parse_event_type(name) == name
    assert not name.startswith("hookfast.")
    found = case.provider.delivery_id(request, payload)
    assert found is None or (0 < len(found) <= 200 and found.isascii() and found.isprintable())
    answer = case.provider.answer(request, payload)
    assert answer is None or case.name == "slack"


@given(case=st.sampled_from(CASES), body=st.binary(max_size=80), is_form=st.booleans())
def test_any_body_is_json_or_kept_as_text(case: Case, body: bytes, is_form: bool) -> None:
    request = received({}, body, content_type=FORM if is_form else JSON)
    if is_form and not case.provider.sends_forms:
        with pytest.raises(UnsupportedContentType):
            case.provider.check_content_type(request)
        return
    case.provider.check_content_type(request)
    reading, is_json = read_payload(case.provider, request)
    assert from_text(reading.text) == reading.value
    assert is_json or list(reading.value) == ["unparsed"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"NaN", b'{"a":-Infinity}', b"[" * 100, b"{} {}", b"<xml/>", b"a=1"]
)
@every_case
def test_body_that_is_not_json_is_rejected(case: Case, body: bytes) -> None:
    with pytest.raises(InvalidInput):
        case.provider.payload(received({}, body))


@every_case
@pytest.mark.parametrize(
    ("content_type", "taken"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("Application/JSON;charset=UTF-8", True),
        ("application/hal+json", True),
        ("application/cloudevents-batch+json", True),
        ("application/vnd.acme.v2+json; profile=x", True),
        ("text/json", True),
        (None, True),  # the signature says who sent it
        ("", True),
        ("text/plain", False),
        ("application/json-seq", False),
        ("application/ö+json", False),
        ("multipart/form-data; boundary=x", False),
        ("application/jsonx", False),
        ("text/html, application/json", False),
    ],
)
def test_other_content_types_than_the_providers_are_rejected(
    case: Case, content_type: str | None, taken: bool
) -> None:
    request = received({}, content_type=content_type)
    if taken:
        case.provider.check_content_type(request)
    else:
        with pytest.raises(UnsupportedContentType):
            case.provider.check_content_type(request)


def test_a_repeated_content_type_is_rejected() -> None:
    twice = received([("Content-Type", JSON), ("content-type", FORM)])
    with pytest.raises(UnsupportedContentType):
        provider("github").check_content_type(twice)


@every_case
def test_suggested_keys_are_valid_patterns_and_expressions(case: Case) -> None:
    for pattern, expression in case.provider.suggested_keys.items():
        assert parse_pattern(pattern, pointer="") == pattern
        assert compile_expression(expression, pointer="").expression.text == expression


@every_case
def test_impossible_secrets_are_rejected_when_a_source_is_created(case: Case) -> None:
    for secret in (
        "",
        " ",
        "short",
        " " + case.secret,
        case.secret + "\n",
        "\0" * 20,
        "é\ud800" * 9,
    ):
        with pytest.raises(InvalidInput) as rejected:
            case.provider.check_secret(secret, pointer="/secrets/0")
        assert rejected.value.code == "invalid_secret"
        assert rejected.value.errors[0].pointer == "/secrets/0"


def test_an_unknown_provider_is_rejected_with_the_list_of_providers() -> None:
    with pytest.raises(InvalidInput, match="github") as rejected:
        provider("githup")
    assert rejected.value.code == "unknown_provider"
    assert rejected.value.errors[0].pointer == "/provider"


def test_repr_of_a_request_shows_no_header_value_and_no_body() -> None:
    request = received({"X-Gitlab-Token": "the-token"}, b"the-body")
    assert "the-token" not in repr(request)
    assert "the-body" not in repr(request)
    assert request.content_key == (
        "sha256:9a92616496f01e045bfc15bbb549a8627754d2ca4c56ead79a18fb580b8e301f"
    )


def test_a_provider_without_verification_cannot_be_instantiated() -> None:
    class Trusting(Provider):
        name = "trusting"

        def event_type(self, received: InboundRequest, payload: JsonValue) -> str:
            return "trusting.all.received"

        def sign(self, unsigned: Unsigned, *, secret: str) -> dict[str, str]:
            return {}

    with pytest.raises(TypeError, match="verify"):
        Trusting()
