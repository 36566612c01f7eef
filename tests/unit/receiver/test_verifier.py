"""The verifier, with requests that other code signed."""

from __future__ import annotations

import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from hookfast import receiver
from hookfast.deliveries.headers import request_headers
from hookfast.receiver import (
    Misconfigured,
    OutsideTolerance,
    ProfileNotAccepted,
    ReceiverError,
    TimestampTooNew,
    TimestampTooOld,
    VerificationError,
    Verifier,
    WrongSignature,
)
from hookfast.receiver.profiles import STRONGEST_FIRST
from hookfast.signing.keys import (
    ed25519_jwk,
    ed25519_key,
    generate_ed25519,
    public_key_text,
    rsa_jwk,
)
from hookfast.signing.signature import (
    DEFAULT_PROFILES,
    HashName,
    Profile,
    generate_secret,
    secret_key,
)
from tests.support.rsa_keys import shared_signer
from tests.unit.receiver.signing import (
    ALL,
    BODY,
    BY_SECRET,
    ID,
    KEY,
    KEY_ID,
    NOW,
    OLD_KEY,
    OLD_SECRET,
    SECRET,
    TIME,
    key_set,
    signed,
)
from tests.unit.receiver.verifying import verifier


@pytest.mark.parametrize("profile", ALL)
def test_a_signed_request_is_verified(profile: str) -> None:
    verified = verifier([profile]).verify(signed(profile), BODY)
    assert verified.profile == profile
    assert verified.message_id == ID
    assert verified.event_type == "order.invoice.paid"
    assert verified.attempt == 3
    assert verified.timestamp == (None if profile == "body" else NOW)


@pytest.mark.parametrize("hash_name", [HashName.SHA256, HashName.SHA512])
@pytest.mark.parametrize("profile", Profile)
def test_requests_signed_by_the_server_are_verified(profile: Profile, hash_name: HashName) -> None:
    secret, old = generate_secret(), generate_secret()
    rsa = shared_signer()
    ed25519 = [ed25519_key(generate_ed25519()) for _ in range(2)]
    directory = json.dumps(
        {"keys": [rsa_jwk(rsa.key), *(ed25519_jwk(public_key_text(key)) for key in ed25519)]}
    )
    headers = request_headers(
        BODY,
        message_id=ID,
        event_type="order.invoice.paid",
        attempt=2,
        timestamp=TIME,
        profiles=[*DEFAULT_PROFILES, *({profile} - set(DEFAULT_PROFILES))],
        keys=[secret_key(secret), secret_key(old)],
        hash_name=hash_name,
        custom={},
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ed25519=ed25519,
        rsa=rsa,
    )
    for known in (secret, old):
        verified = Verifier(
            known,
            public_keys=receiver.KeySet.from_jwks(directory),
            profiles=[profile.value],
            clock=lambda: NOW,
        ).verify(headers, BODY)
        assert (verified.profile, verified.message_id) == (profile, ID)
        assert (verified.event_type, verified.attempt) == ("order.invoice.paid", 2)
    if profile is Profile.STANDARD_ED25519:
        keys = receiver.KeySet.from_public_keys(public_key_text(ed25519[1]))
        Verifier(public_keys=keys, clock=lambda: NOW).verify(headers, BODY)


def test_the_profiles_are_those_of_the_server() -> None:
    assert set(STRONGEST_FIRST) == set(Profile)


def test_requests_signed_by_the_standard_webhooks_library_are_verified() -> None:
    now = datetime.now(UTC)
    signature = Webhook(SECRET).sign(ID, now, BODY.decode())
    headers = {
        "webhook-id": ID,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    assert Verifier(SECRET).verify(headers, BODY).message_id == ID


def test_the_published_vector_is_verified() -> None:
    # the example of the Standard Webhooks documentation
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    published = Verifier(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        clock=lambda: datetime.fromtimestamp(1614265330, UTC),
    )
    assert published.verify(headers, b'{"test": 2432232314}').profile == "standard"


@pytest.mark.parametrize("profile", BY_SECRET)
@pytest.mark.parametrize("signing", [(KEY, OLD_KEY), (OLD_KEY, KEY), (KEY,), (OLD_KEY,)])
@pytest.mark.parametrize("secrets", [[SECRET, OLD_SECRET], [OLD_SECRET, SECRET]])
def test_either_secret_of_a_rotation_verifies_in_any_order(
    profile: str, signing: tuple[bytes, ...], secrets: list[str]
) -> None:
    headers = signed(profile, keys=signing)
    assert verifier([profile], secrets=secrets).verify(headers, BODY).profile == profile


@pytest.mark.parametrize("profile", BY_SECRET)
def test_a_signature_by_an_unknown_secret_is_rejected(profile: str) -> None:
    with pytest.raises(WrongSignature):
        verifier([profile], secrets=[OLD_SECRET]).verify(signed(profile), BODY)


@pytest.mark.parametrize("hash_name", ["sha256", "sha512"])
def test_hook_signature_can_use_other_hashes(hash_name: str) -> None:
    verifier(["hook"]).verify(signed("hook", hash_name=hash_name), BODY)


def test_sha1_is_accepted_only_when_it_is_allowed() -> None:
    headers = signed("hook", hash_name="sha1")
    with pytest.raises(ProfileNotAccepted, match="SHA-1 is not allowed"):
        verifier(["hook"]).verify(headers, BODY)
    verifier(["hook"], allow_sha1=True).verify(headers, BODY)


@pytest.mark.parametrize("accepted", ALL)
@pytest.mark.parametrize("sent", ALL)
def test_a_signature_of_a_profile_that_is_not_accepted_is_rejected(
    accepted: str, sent: str
) -> None:
    if accepted == sent:
        return
    if (accepted, sent) == ("body", "nonce"):
        error: type[VerificationError] = WrongSignature  # they share header and hash
    elif {accepted, sent} <= {"rsa", "nonce", "body"}:
        error = ProfileNotAccepted
    else:
        error = VerificationError
    with pytest.raises(error):
        verifier([accepted]).verify(signed(sent), BODY)


def test_a_valid_body_signature_does_not_excuse_a_missing_standard_one() -> None:
    with pytest.raises(ProfileNotAccepted, match="X-Webhook-Signature has no signature"):
        verifier(["standard"]).verify(signed("body"), BODY)


def test_any_does_not_include_the_profile_that_signs_no_time() -> None:
    assert verifier("any").profiles == ("rsa", "standard-ed25519", "standard", "nonce", "hook")
    with pytest.raises(ProfileNotAccepted):
        verifier("any").verify(signed("body"), BODY)


def test_only_the_strongest_of_several_signatures_counts() -> None:
    both = signed("hook") | signed("standard")
    assert verifier().verify(both, BODY).profile == "standard"
    with pytest.raises(WrongSignature, match="no standard signature"):
        verifier().verify(both | {"webhook-signature": "v1,AAAA"}, BODY)


def test_hmac_and_rsa_signatures_in_one_header_are_distinguished() -> None:
    rsa = signed("rsa")
    both = signed("nonce") | {
        "X-Webhook-Signature": signed("nonce")["X-Webhook-Signature"]
        + ", "
        + rsa["X-Webhook-Signature"],
        "X-Webhook-Key-Id": KEY_ID,
    }
    assert verifier(["rsa"]).verify(both, BODY).profile == "rsa"
    assert verifier(["nonce"]).verify(both, BODY).profile == "nonce"


def test_both_standard_signatures_in_one_header_are_distinguished() -> None:
    both, ed25519 = signed("standard"), signed("standard-ed25519")["webhook-signature"]
    both["webhook-signature"] = f"{ed25519} {both['webhook-signature']}"
    for profile in ("standard", "standard-ed25519"):
        assert verifier([profile]).verify(both, BODY).profile == profile
    wrong = both | {"webhook-signature": both["webhook-signature"].replace("v1a,", "v1a,A")}
    with pytest.raises(WrongSignature, match="no standard-ed25519"):
        verifier().verify(wrong, BODY)


def test_unknown_signature_versions_are_ignored() -> None:
    headers = signed("standard")
    headers["webhook-signature"] = "v9,abc " + headers["webhook-signature"]
    verifier(["standard"]).verify(headers, BODY)


@pytest.mark.parametrize("profile", [profile for profile in ALL if profile != "body"])
@pytest.mark.parametrize(
    ("seconds_later", "error"),
    [
        (-300.000001, TimestampTooNew),
        (-300, None),
        (0, None),
        (300, None),
        (300.000001, TimestampTooOld),
        (10**7, TimestampTooOld),
    ],
)
def test_the_timestamp_may_differ_by_exactly_the_tolerance(
    profile: str, seconds_later: float, error: type[OutsideTolerance] | None
) -> None:
    now = NOW + timedelta(seconds=seconds_later)
    late = verifier([profile], clock=lambda: now)
    if error is None:
        verified = late.verify(signed(profile), BODY)
        assert verified.fresh_for == timedelta(seconds=300 - seconds_later)
    else:
        with pytest.raises(error, match="clock") as raised:
            late.verify(signed(profile), BODY)
        assert raised.value.age == timedelta(seconds=seconds_later)
        assert f"signed, but {abs(seconds_later):.0f} s " in raised.value.message


def test_a_forged_request_does_not_learn_whether_its_time_is_valid() -> None:
    late = verifier(["hook"], clock=lambda: NOW + timedelta(days=1))
    with pytest.raises(WrongSignature):
        late.verify(signed("hook", keys=[OLD_KEY]), BODY)


@pytest.mark.parametrize("profile", BY_SECRET)
def test_hmac_comparison_takes_constant_time(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(expected: bytes, given: bytes) -> bool:
        compared.append((expected, given))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    with pytest.raises(WrongSignature):
        verifier([profile], secrets=[SECRET, OLD_SECRET]).verify(
            signed(profile, keys=[KEY, OLD_KEY]), BODY
        )
    # two secrets with two signatures, none left out because of what came before
    assert len(compared) == 4
    assert sum(expected == given for expected, given in compared) == 2


@pytest.mark.parametrize("profile", BY_SECRET)
def test_no_error_contains_a_secret_signature_or_body(profile: str) -> None:
    right = signed(profile)
    secrets = [SECRET, SECRET[6:], KEY.decode(), BODY.decode()]
    secrets += [
        value.removeprefix("sha256=").removeprefix("v1,")
        for name, value in right.items()
        if name.lower().endswith("-signature")
    ]
    wrong = [
        (signed(profile, keys=[OLD_KEY]), BODY),
        (right, BODY + b" "),
        ({}, BODY),
        (right | {name: "\u2603" for name in right}, BODY),
    ]
    for headers, body in wrong:
        with pytest.raises(VerificationError) as raised:
            verifier([profile]).verify(headers, body)
        said = f"{raised.value} {raised.value!r}"
        assert not [secret for secret in secrets if secret in said]


def test_repr_does_not_contain_the_secret() -> None:
    assert repr(verifier(["hook"])) == "Verifier(profiles=['hook'])"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pass the endpoint's secret"),
        ({"secrets": []}, "pass the endpoint's secret"),
        ({"secrets": ""}, "secret 1 is empty"),
        ({"secrets": [SECRET, ""]}, "secret 2 is empty"),
        ({"secrets": [SECRET, None]}, "secret 2 is empty"),
        ({"secrets": ["whsec_"]}, "24 to 64"),
        ({"secrets": ["whsec_c2hvcnQ="]}, "24 to 64"),
        ({"secrets": ["whsec_no base64!"]}, "not base64"),
        ({"secrets": ["whsec_\u00e9"]}, "not base64"),
        ({"secrets": ["b2" * 20]}, "does not begin with whsec_"),
        ({"secrets": ["v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}, "leave out the `v1,`"),
        ({"secrets": SECRET, "profiles": []}, "at least one"),
        ({"secrets": SECRET, "profiles": ["strong"]}, "unknown profile 'strong'"),
        ({"secrets": SECRET, "profiles": ["rsa"]}, "rsa needs public keys"),
        ({"public_keys": True, "profiles": ["hook"]}, "hook needs a secret"),
        ({"secrets": SECRET, "tolerance": timedelta()}, "tolerance"),
    ],
)
def test_invalid_configuration_is_rejected_when_the_verifier_is_created(
    options: dict[str, Any], message: str
) -> None:
    if "public_keys" in options:
        options = options | {"public_keys": key_set()}
    with pytest.raises(Misconfigured, match=message) as raised:
        Verifier(**options)
    assert isinstance(raised.value, ValueError)
    assert "no base64!" not in str(raised.value)


def test_public_names_are_listed_and_every_error_is_in_the_tree() -> None:
    assert receiver.__all__ == sorted(receiver.__all__, key=lambda name: (not name.isupper(), name))
    errors = [
        value
        for value in vars(receiver.errors).values()
        if isinstance(value, type) and issubclass(value, ReceiverError)
    ]
    assert len({error.code for error in errors}) == len(errors)
    assert all(error.__name__ in (receiver.errors.__doc__ or "") for error in errors)
