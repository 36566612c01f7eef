"""An endpoint's sealed secrets and headers: rotation, which secrets sign, and what opens them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.exceptions import InvalidSignature
from hypothesis import given
from hypothesis import strategies as st

from hookfast.endpoints.secrets import (
    MAX_LIVE,
    Secret,
    live_secrets,
    new_ed25519_secret,
    open_headers,
    open_secrets,
    reseal,
    rotate,
    seal_headers,
    seal_secret,
    sealed_texts,
)
from hookfast.errors import Conflict, Misconfigured
from hookfast.signing.keyring import Keyring
from hookfast.signing.signature import generate_secret, secret_key

NOW = datetime(2026, 11, 20, 11, 15, tzinfo=UTC)
DAY = timedelta(days=1)
OLD, NEW = b"o" * 32, b"n" * 32
KEYRING = Keyring([OLD])
ENDPOINT = "ep_1"


def _first(secret: str) -> list[Secret]:
    return [seal_secret(secret, KEYRING, endpoint_id=ENDPOINT, at=NOW)]


def _rotated(
    secrets: list[Secret], *, overlap: timedelta = DAY, now: datetime = NOW
) -> tuple[list[Secret], str]:
    rotation = rotate(secrets, KEYRING, endpoint_id=ENDPOINT, overlap=overlap, now=now)
    return rotation.secrets, rotation.secret


def _keys(secrets: list[Secret], now: datetime) -> list[bytes]:
    return list(open_secrets(secrets, KEYRING, endpoint_id=ENDPOINT, now=now).hmac)


def test_old_and_new_secrets_sign_until_the_overlap_ends() -> None:
    old = generate_secret()
    secrets, new = _rotated(_first(old))
    assert _keys(secrets, NOW) == [secret_key(new), secret_key(old)]
    assert _keys(secrets, NOW + DAY - timedelta(microseconds=1)) == _keys(secrets, NOW)
    assert _keys(secrets, NOW + DAY) == [secret_key(new)]


def test_without_an_overlap_the_old_secret_ends_at_once() -> None:
    secrets, new = _rotated(_first(generate_secret()), overlap=timedelta())
    assert len(secrets) == 1
    assert _keys(secrets, NOW) == [secret_key(new)]


def test_second_rotation_does_not_extend_the_first_overlap() -> None:
    old = generate_secret()
    secrets, middle = _rotated(_first(old), overlap=DAY)
    secrets, new = _rotated(secrets, overlap=7 * DAY, now=NOW + DAY / 2)
    assert _keys(secrets, NOW + DAY / 2) == [secret_key(one) for one in (new, middle, old)]
    assert _keys(secrets, NOW + DAY) == [secret_key(new), secret_key(middle)]


def test_expired_secrets_are_removed_at_the_next_rotation() -> None:
    secrets, _ = _rotated(_first(generate_secret()), overlap=DAY)
    secrets, _ = _rotated(secrets, overlap=DAY, now=NOW + 2 * DAY)
    assert len(secrets) == 2


def test_at_most_five_secrets_sign_but_a_leak_can_always_be_ended() -> None:
    secrets = _first(generate_secret())
    for _ in range(MAX_LIVE - 1):
        secrets, _ = _rotated(secrets)
    assert len(live_secrets(secrets, NOW)) == MAX_LIVE == 5
    with pytest.raises(Conflict, match=r"2026-11-21T11:15:00\.000000Z") as caught:
        _rotated(secrets)
    assert caught.value.code == "too_many_secrets"
    secrets, new = _rotated(secrets, overlap=timedelta())
    assert _keys(secrets, NOW) == [secret_key(new)]


def test_ed25519_key_rotates_with_the_secret() -> None:
    first = new_ed25519_secret(KEYRING, endpoint_id=ENDPOINT, at=NOW)
    secrets, _ = _rotated([*_first(generate_secret()), first])
    during = open_secrets(secrets, KEYRING, endpoint_id=ENDPOINT, now=NOW).ed25519
    after = open_secrets(secrets, KEYRING, endpoint_id=ENDPOINT, now=NOW + DAY).ed25519
    assert len(during) == 2
    assert [key.private_bytes_raw() for key in after] == [during[0].private_bytes_raw()]
    publics = [one["public"] for one in secrets if "public" in one]
    assert len(set(publics)) == 2
    assert publics[1] == first["public"]
    during[1].public_key().verify(during[1].sign(b"x"), b"x")
    with pytest.raises(InvalidSignature):
        during[0].public_key().verify(during[1].sign(b"x"), b"x")


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 7 * 86_400), st.integers(0, 3 * 86_400)), min_size=1, max_size=12
    )
)
def test_receivers_can_verify_for_the_whole_overlap(
    steps: list[tuple[int, int]],
) -> None:
    now = NOW
    secrets = _first(first := generate_secret())
    told: list[tuple[str, datetime | None]] = [(first, None)]
    for overlap, pause in steps:
        ends = now + timedelta(seconds=overlap)
        try:
            secrets, new = _rotated(secrets, overlap=timedelta(seconds=overlap), now=now)
        except Conflict:
            assert len(live_secrets(secrets, now)) == MAX_LIVE
        else:
            told = [(one, min(end or ends, ends)) for one, end in told] + [(new, None)]
        now += timedelta(seconds=pause)
        promised = {secret_key(one) for one, end in told if end is None or end > now}
        assert set(_keys(secrets, now)) == promised


def test_stored_values_are_unreadable() -> None:
    secret = generate_secret()
    stored = json.dumps(
        [
            _first(secret),
            new_ed25519_secret(KEYRING, endpoint_id=ENDPOINT, at=NOW),
            seal_headers({"Authorization": "Basic c2VjcmV0"}, KEYRING, endpoint_id=ENDPOINT),
        ]
    )
    for clear in (secret, "whsec_", "whsk_", "Basic", "c2VjcmV0"):
        assert clear not in stored


def test_header_opens_only_with_its_own_name_and_endpoint() -> None:
    stored = seal_headers({"Authorization": "a", "X-Env": "b"}, KEYRING, endpoint_id=ENDPOINT)
    assert open_headers(stored, KEYRING, endpoint_id=ENDPOINT) == {
        "Authorization": "a",
        "X-Env": "b",
    }
    moved = {"X-Env": stored["Authorization"]}
    for row, endpoint_id in ((moved, ENDPOINT), (stored, "ep_2")):
        with pytest.raises(Misconfigured):
            open_headers(row, KEYRING, endpoint_id=endpoint_id)


def test_ed25519_key_does_not_open_as_a_secret() -> None:
    key = new_ed25519_secret(KEYRING, endpoint_id=ENDPOINT, at=NOW)
    del key["kind"]
    with pytest.raises(Misconfigured):
        open_secrets([key], KEYRING, endpoint_id=ENDPOINT, now=NOW)


def test_reseal_uses_the_newest_key_and_changes_nothing_else() -> None:
    secret = generate_secret()
    secrets = [*_first(secret), new_ed25519_secret(KEYRING, endpoint_id=ENDPOINT, at=NOW)]
    headers = seal_headers({"X-A": "a", "X-B": "b"}, KEYRING, endpoint_id=ENDPOINT)
    both, newest = Keyring([NEW, OLD]), Keyring([NEW])
    fresh, sealed = reseal(secrets, headers, both, endpoint_id=ENDPOINT)
    texts = list(sealed_texts(fresh, sealed, endpoint_id=ENDPOINT))
    assert len(texts) == 4
    assert all(newest.is_current(text) for _, text in texts)
    assert open_headers(sealed, newest, endpoint_id=ENDPOINT) == {"X-A": "a", "X-B": "b"}
    opened = open_secrets(fresh, newest, endpoint_id=ENDPOINT, now=NOW)
    assert opened.hmac == (secret_key(secret),)
    assert [{**one, "sealed": ""} for one in fresh] == [{**one, "sealed": ""} for one in secrets]
    assert reseal(fresh, sealed, both, endpoint_id=ENDPOINT) == (fresh, sealed)
