"""The column `credentials`: what replaces what, what is opened, and what is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from hookfast.endpoints.credentials import (
    PUBLIC,
    Access,
    AnyCredential,
    Basic,
    Bearer,
    Credential,
    OAuth2,
    TlsIdentity,
    current_credential,
    has_secret,
    open_credentials,
    put_credential,
    replaced_until,
    reseal_credentials,
    seal_credential,
    sealed_credentials,
    without_credential,
)
from hookfast.errors import InvalidInput, Misconfigured
from hookfast.signing.keyring import Keyring
from tests.support.certificates import client_identity, pem

OLD, NEW = b"o" * 32, b"n" * 32
KEYRING = Keyring([OLD])
EP = "ep_1"
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
AUTHORITY = trustme.CA()
TLS = TlsIdentity(authorities=pem(AUTHORITY))
CLIENT = OAuth2("https://login.example/token", "shop", "s3cret", scope="a b")
BASIC = Basic("shop", "pässword: x")
BEARER = Bearer("t0ken")


def put(
    stored: list[Credential], *new: AnyCredential, overlap: timedelta = HOUR, now: datetime = NOW
) -> list[Credential]:
    for credential in new:
        sealed = seal_credential(credential, KEYRING, endpoint_id=EP, now=now)
        stored = put_credential(stored, sealed, overlap=overlap, now=now)
    return stored


def opened(stored: list[Credential], *, at: datetime = NOW, keyring: Keyring = KEYRING) -> Access:
    return open_credentials(stored, keyring, endpoint_id=EP, now=at)


@pytest.mark.parametrize("credential", [BASIC, BEARER, CLIENT, replace(CLIENT, audience="x"), TLS])
def test_a_credential_is_opened_as_it_was_sealed_and_its_column_shows_no_secret(
    credential: AnyCredential,
) -> None:
    stored = put([], credential)
    access = opened(stored)
    assert (*access.authentication, *access.tls) == (credential,)
    text = json.dumps(stored)
    for secret in ("s3cret", "pässword", "t0ken", "BEGIN"):
        assert secret not in text
        if secret != "BEGIN":
            assert secret not in repr(credential)


def test_a_private_key_is_in_neither_the_column_nor_the_repr() -> None:
    identity = TlsIdentity(**client_identity(AUTHORITY))
    assert opened(put([], identity)).tls == (identity,)
    assert "PRIVATE" not in json.dumps(put([], identity))
    assert "PRIVATE" not in repr(identity)


def test_the_replaced_credential_is_used_until_the_overlap_ends() -> None:
    stored = put([], BASIC, BEARER)
    assert replaced_until(stored, tls=False) == NOW + HOUR
    assert opened(stored, at=NOW + HOUR - timedelta(seconds=1)) == Access((BEARER, BASIC))
    assert opened(stored, at=NOW + HOUR) == Access((BEARER,))


def test_a_second_replacement_ends_the_first_credential() -> None:
    stored = put([], BASIC, BEARER, CLIENT)
    assert opened(stored).authentication == (CLIENT, BEARER)


def test_without_overlap_nothing_replaced_remains() -> None:
    stored = put(put([], BASIC, BEARER), CLIENT, overlap=timedelta(0))
    assert opened(stored).authentication == (CLIENT,)
    assert len(stored) == 1
    assert replaced_until(stored, tls=False) is None


def test_authentication_and_tls_are_replaced_and_removed_apart() -> None:
    stored = put([], BASIC, TLS, BEARER)
    assert opened(stored) == Access((BEARER, BASIC), (TLS,))
    assert replaced_until(stored, tls=True) is None
    assert opened(without_credential(stored, tls=False)) == Access((), (TLS,))
    assert opened(without_credential(stored, tls=True)) == Access((BEARER, BASIC))
    current = current_credential(stored, tls=False)
    assert current is not None
    assert current["kind"] == "bearer"
    assert current_credential(without_credential(stored, tls=True), tls=True) is None


def test_only_what_requests_carry_is_a_secret() -> None:
    identity = TlsIdentity(**client_identity(AUTHORITY))
    for credential in (BASIC, BEARER, CLIENT):
        assert has_secret(put([], credential, TLS), tls=False, now=NOW)
        assert not has_secret(put([], credential, TLS), tls=True, now=NOW)
    assert has_secret(put([], identity), tls=True, now=NOW)
    assert not has_secret([], tls=False, now=NOW)
    replaced = put([], identity, TLS)
    assert has_secret(replaced, tls=True, now=NOW)
    assert not has_secret(replaced, tls=True, now=NOW + HOUR)


def test_an_endpoint_without_credentials_is_public() -> None:
    assert opened([]) is PUBLIC


def test_a_credential_cannot_be_moved_to_another_endpoint_or_kind() -> None:
    [stored] = put([], BEARER)
    with pytest.raises(Misconfigured):
        open_credentials([stored], KEYRING, endpoint_id="ep_2", now=NOW)
    with pytest.raises(Misconfigured):
        opened([stored | {"kind": "basic"}])


def test_resealing_uses_the_newest_key_and_changes_nothing_else() -> None:
    stored = put([], BASIC, TLS, BEARER)
    fresh = reseal_credentials(stored, Keyring([NEW, OLD]), endpoint_id=EP)
    assert opened(fresh, keyring=Keyring([NEW])) == opened(stored)
    unsealed = [
        [{k: v for k, v in one.items() if k != "sealed"} for one in each]
        for each in (fresh, stored)
    ]
    assert unsealed[0] == unsealed[1]
    contexts = [context for context, _ in sealed_credentials(stored, endpoint_id=EP)]
    assert contexts == [f"{EP} (credential {kind})" for kind in ("bearer", "basic", "tls")]


@pytest.mark.parametrize(
    ("credential", "pointer"),
    [
        (Bearer(""), "/token"),
        (Bearer("two words"), "/token"),
        (Bearer("new\r\nline"), "/token"),
        (Bearer("ümlaut"), "/token"),
        (Basic("a:b", "x"), "/username"),
        (Basic("a\x00", "x"), "/username"),
        (Basic("a", "x\n"), "/password"),
        (replace(CLIENT, client_secret="a\tb"), "/client_secret"),
        (replace(CLIENT, scope="a\nb"), "/scope"),
        (TlsIdentity(), "/certificate"),
    ],
)
def test_a_credential_that_cannot_be_sent_is_rejected(
    credential: AnyCredential, pointer: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        put([], credential)
    assert [error.pointer for error in caught.value.errors] == [pointer]
