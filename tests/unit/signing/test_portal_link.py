"""Portal links: their content cannot be read or changed, or used after the expiry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from hookfast.errors import Unauthenticated
from hookfast.signing.keyring import Keyring
from hookfast.signing.portal_link import PARAMETER, OwnerLinks, PortalLink, open_link

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KEYRING = Keyring([b"k" * 32])
LINK = PortalLink(
    tenant_id="tnt_1",
    endpoint_id="ep_1",
    scope="tenant",
    expires_at=NOW + timedelta(hours=1),
    key_id="key_1",
)


def value_of(url: str) -> str:
    (value,) = parse_qs(urlsplit(url).query)[PARAMETER]
    return value


def made(keyring: Keyring = KEYRING) -> str:
    return value_of(LINK.url(keyring, public_url="https://hooks.example"))


def test_an_opened_link_has_its_permissions() -> None:
    assert open_link(made(), KEYRING, now=NOW) == LINK


def test_the_text_of_a_link_reveals_nothing() -> None:
    url = LINK.url(KEYRING, public_url="https://hooks.example")
    assert url.startswith("https://hooks.example/portal/open?sig=")
    assert not {"tnt_1", "ep_1", "key_1"} & set(url.split("=")[1:])
    assert made() != made()  # each has a new nonce


def test_a_link_works_until_it_expires() -> None:
    value = made()
    assert open_link(value, KEYRING, now=LINK.expires_at - timedelta(seconds=1)) == LINK
    with pytest.raises(Unauthenticated) as caught:
        open_link(value, KEYRING, now=LINK.expires_at)
    assert caught.value.code == "expired_link"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: "",
        lambda value: "x",
        lambda value: value[:-1],
        lambda value: ("A" if value[40] != "A" else "B").join((value[:40], value[41:])),
        lambda value: value * 20,
        lambda value: "ä" + value,
    ],
    ids=["empty", "short", "cut", "changed", "long", "not ASCII"],
)
def test_an_altered_link_is_rejected(spoil: object) -> None:
    with pytest.raises(Unauthenticated) as caught:
        open_link(spoil(made()), KEYRING, now=NOW)  # type: ignore[operator]
    assert caught.value.code == "invalid_link"


def test_removing_a_key_from_the_ring_ends_its_links() -> None:
    value = made()
    assert open_link(value, Keyring([b"n" * 32, b"k" * 32]), now=NOW) == LINK
    with pytest.raises(Unauthenticated):
        open_link(value, Keyring([b"n" * 32]), now=NOW)


def test_a_secret_sealed_for_another_purpose_is_not_a_link() -> None:
    sealed = KEYRING.seal('["tnt_1",null,"tenant",9999999999,"key_1",null]', context="flash")
    with pytest.raises(Unauthenticated):
        open_link(sealed, KEYRING, now=NOW)


def test_an_owners_link_shows_one_endpoint_and_changes_nothing() -> None:
    links = OwnerLinks(KEYRING, timedelta(days=7))
    url = links.url("ep_1", tenant_id="tnt_1", owner="0f", at=NOW, public_url="https://x.example")
    link = open_link(value_of(url), KEYRING, now=NOW)
    assert (link.endpoint_id, link.scope, link.key_id, link.owner_hash) == (
        *("ep_1", "tenant:read", None, "0f"),
    )
    assert link.expires_at == NOW + timedelta(days=7)
