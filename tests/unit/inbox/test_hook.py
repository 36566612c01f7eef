"""Requests of another Hookfast, signed by OpenSSL and by the server's own code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA512

from hookfast.errors import InvalidInput
from hookfast.inbox import delivery_key, provider
from hookfast.inbox.samples import sample
from hookfast.signing.signature import Profile, merged_headers, secret_key, sign
from tests.unit.inbox.requests import ACCEPTED, NOW, TIME, URL, b64, mac, outcome, received

STANDARD = provider("hook")
HOOK = provider("hook", {"profiles": ["hook"]})
EVERY = ("standard", "nonce", "hook")
KEY = b"s" * 32
SECRET = "whsec_" + b64(KEY)
PUBLIC = "whpk_" + b64(
    Ed25519PrivateKey.from_private_bytes(b"e" * 32).public_key().public_bytes_raw()
)
BODY = b'{"id":"evt_1","type":"order.invoice.paid"}'
ID = "dlv_0192f0c1a5b27d3e8f4a5b6c7d8e9f00"


def signed(*, key: bytes = KEY, body: bytes = BODY) -> dict[str, str]:
    return {
        "X-Hook-Id": ID,
        "X-Hook-Timestamp": str(TIME),
        "X-Hook-Signature": f"sha256={mac(key, f'{TIME}.'.encode() + body).hex()}",
    }


def sent(profiles: Iterable[str]) -> dict[str, str]:
    """Return the headers of an endpoint with these signatures."""
    return {"X-Hook-Id": ID} | merged_headers(
        sign(
            Profile(name),
            keys=[secret_key(SECRET)],
            message_id=ID,
            timestamp=TIME,
            body=BODY,
            nonce="n" * 32,
        )
        for name in profiles
    )


@pytest.mark.parametrize("profiles", [["standard"], ["hook", "standard"], EVERY])
def test_requests_of_another_hookfast_are_accepted(profiles: Sequence[str]) -> None:
    request = received(sent(profiles), BODY)
    assert outcome(STANDARD, request, SECRET) == ACCEPTED
    assert STANDARD.delivery_id(request, {}) == ID


@pytest.mark.parametrize("profile", ["hook", "nonce"])
def test_a_profile_that_signs_no_id_must_be_named_and_has_no_delivery_id(profile: str) -> None:
    request = received(sent([profile]), BODY)
    assert outcome(STANDARD, request, SECRET) == "signature_not_accepted"
    named = provider("hook", {"profiles": [profile]})
    assert outcome(named, request, SECRET) == ACCEPTED
    assert delivery_key(named, request, payload={}) == request.content_key


@pytest.mark.parametrize(
    "profiles", [["standard"], ["hook"], ["nonce"], ["hook", "standard"], EVERY], ids="+".join
)
def test_a_captured_request_keeps_its_key_when_signatures_are_removed(profiles: list[str]) -> None:
    source = provider("hook", {"profiles": profiles})
    captured = sent(EVERY)
    key = delivery_key(source, received(captured, BODY), payload={})
    ids = {name for name in captured if name.lower().endswith("-id")}
    accepted = set()
    for left in chain.from_iterable(combinations(EVERY, n) for n in range(len(EVERY) + 1)):
        for changed in chain.from_iterable(combinations(ids, n) for n in range(len(ids) + 1)):
            request = received(sent(left) | dict.fromkeys(changed, "dlv_evil"), BODY)
            if outcome(source, request, SECRET) == ACCEPTED:
                accepted.add(left)
                assert delivery_key(source, request, payload={}) == key
    assert accepted
    assert all(set(left) & set(profiles) for left in accepted)


@pytest.mark.parametrize("profiles", [[], ["body"], ["rsa"], ["hook", "else"], "hook"])
def test_weak_profiles_are_rejected(profiles: object) -> None:
    with pytest.raises(InvalidInput) as rejected:
        provider("hook", {"profiles": profiles})
    assert rejected.value.errors[0].pointer.startswith("/options/profiles")


def test_a_public_key_verifies_only_the_standard_profile() -> None:
    STANDARD.check_secret(PUBLIC, pointer="/secrets/0")
    with pytest.raises(InvalidInput, match="standard"):
        HOOK.check_secret(PUBLIC, pointer="/secrets/0")
    # a source whose profiles were changed later
    assert outcome(HOOK, received(signed(), BODY), PUBLIC) == "secret_missing"
    assert outcome(HOOK, received(signed(), BODY), PUBLIC, SECRET) == ACCEPTED


@pytest.mark.parametrize("profiles", [["standard"], ["nonce"], ["hook"], ["hook", "standard"]])
def test_a_sample_is_signed_with_the_sources_profiles(profiles: list[str]) -> None:
    source = provider("hook", {"profiles": profiles})
    given = sample("hook.order.invoice.paid", provider=source, secret=SECRET, now=NOW, url=URL)
    assert outcome(source, received(given.headers, given.body), SECRET) == ACCEPTED
    with pytest.raises(InvalidInput) as rejected:
        sample("hook.order.invoice.paid", provider=source, secret=PUBLIC, now=NOW, url=URL)
    assert rejected.value.code == "invalid_secret"


@pytest.mark.parametrize(
    ("changes", "body", "code"),
    [
        ({}, BODY, ACCEPTED),
        ({}, BODY + b" ", "signature_mismatch"),
        ({"X-Hook-Timestamp": str(TIME + 1)}, BODY, "signature_mismatch"),
        ({"X-Hook-Timestamp": "soon"}, BODY, "timestamp_malformed"),
        ({"X-Hook-Signature": "sha256="}, BODY, "signature_mismatch"),
        ({"X-Hook-Signature": "md5=00"}, BODY, "signature_not_accepted"),
    ],
)
def test_only_the_signature_of_time_and_body_is_accepted(
    changes: dict[str, str], body: bytes, code: str
) -> None:
    assert outcome(HOOK, received(signed() | changes, body), SECRET) == code


def test_the_stronger_of_two_accepted_signatures_counts() -> None:
    wrong = {"webhook-id": ID, "webhook-timestamp": str(TIME), "webhook-signature": "v1,x"}
    request = received(signed() | wrong, BODY)
    both = provider("hook", {"profiles": ["hook", "standard"]})
    assert outcome(both, request, SECRET) == "signature_mismatch"
    assert outcome(HOOK, request, SECRET) == ACCEPTED


def test_sha1_must_be_allowed_and_the_only_signature() -> None:
    message = f"{TIME}.".encode() + BODY
    weak = f"sha1={mac(KEY, message, SHA1()).hex()}"  # noqa: S303 - to be rejected
    allowed = provider("hook", {"profiles": ["hook"], "allow_sha1": True})
    alone = received(signed() | {"X-Hook-Signature": weak}, BODY)
    assert outcome(HOOK, alone, SECRET) == "signature_not_accepted"
    assert outcome(allowed, alone, SECRET) == ACCEPTED
    strong = f"sha512={mac(KEY, message, SHA512()).hex()}"
    assert (
        outcome(HOOK, received(signed() | {"X-Hook-Signature": strong}, BODY), SECRET) == ACCEPTED
    )


def test_the_profile_that_signs_no_time_is_not_accepted() -> None:
    headers = sign(
        Profile.BODY, keys=[KEY], message_id=ID, timestamp=TIME, body=BODY, event_type="a.b.c"
    )
    every = provider("hook", {"profiles": EVERY})
    assert outcome(every, received(headers, BODY), SECRET) == "signature_not_accepted"


@pytest.mark.parametrize(
    ("payload", "topic", "name"),
    [
        ({"type": "order.invoice.paid"}, "a.b.c", "order.invoice.paid"),
        ({"no": "type"}, "order.invoice.paid", "order.invoice.paid"),
        ({"type": "hookfast.endpoint.disabled"}, None, "hook.hookfast_endpoint.disabled"),
        ({}, "hookfast.endpoint.disabled", "hook.hookfast_endpoint.disabled"),
        ({"type": "Order.Paid"}, None, "hook.order.paid"),
        ([], None, "hook.event.received"),
    ],
)
def test_event_types_are_unchanged_except_operational_ones(
    payload: object, topic: str | None, name: str
) -> None:
    headers = {} if topic is None else {"X-Hook-Topic": topic}
    assert HOOK.event_type(received(headers), payload) == name  # type: ignore[arg-type]
