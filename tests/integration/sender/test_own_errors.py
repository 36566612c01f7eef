"""Errors of our own while a request is made: each is the outcome of an attempt, with a reason and
without a secret. Raised, it would have the request repeated for ever."""

from __future__ import annotations

import ssl
from unittest.mock import Mock

import pytest
import trustme
from sqlalchemy.exc import OperationalError

from hookfast.deliveries.outcome import Result
from hookfast.endpoints.credentials import Access, OAuth2, TlsIdentity
from hookfast.sender import AddressGuard, Sender, sender
from hookfast.sender.authorized import AuthorizedRequests
from hookfast.sender.connection import Connection
from hookfast.sender.dial import Dialer
from hookfast.sender.oauth2 import AccessTokens
from hookfast.sender.origin import Origin
from hookfast.sender.pool import ConnectionPool
from hookfast.sender.request import Request
from hookfast.sender.resolver import Resolver
from hookfast.sender.tls import TlsContexts
from tests.integration.sender.conftest import LOOPBACK, post
from tests.support.certificates import SHA1_IDENTITY, client_identity, demanding_context, pem
from tests.support.receiver import Receiver

pytestmark = pytest.mark.anyio

STEPS = [
    (sender, "parse_url"),
    (Request, "message"),
    (AuthorizedRequests, "send"),
    (AccessTokens, "get"),
    (AccessTokens, "_request"),
    (TlsContexts, "of"),
    (ConnectionPool, "exchange"),
    (Origin, "exchange"),
    (Dialer, "dial"),
    (Dialer, "allowed_addresses"),
    (AddressGuard, "check_host"),
    (AddressGuard, "check"),
    (Resolver, "resolve"),
    (Connection, "exchange"),
]
CLIENT = OAuth2("https://localhost:4/token", "hookfast", "s3cret-1")


@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
async def test_whatever_a_step_raises_is_a_failed_attempt_with_a_reason(
    sender: Sender,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
) -> None:
    access = Access((CLIENT,)) if owner is AccessTokens else Access()
    for error in (RuntimeError, ValueError, OSError, ssl.SSLError, TimeoutError):
        monkeypatch.setattr(owner, name, Mock(side_effect=error("s3cret-2")))
        outcome = await post(sender, receiver.url(host="localhost"), access=access)
        assert outcome.result is Result.INTERNAL
        assert outcome.error == (
            f"The request could not be made: Hookfast failed ({error.__name__}). Its operator "
            "finds where in the log."
        )
    assert receiver.requests == []


async def test_the_log_says_where_an_unexpected_error_was_raised_and_not_its_text(
    sender: Sender,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(AddressGuard, "check", Mock(side_effect=ValueError("s3cret")))
    await post(sender, receiver.url())
    line = capsys.readouterr().out
    assert "A request could not be made." in line
    assert "hookfast/sender/dial.py" in line
    assert "s3cret" not in line


async def test_an_error_after_a_2xx_status_line_leaves_a_success(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "_receive_body", Mock(side_effect=RuntimeError))
    outcome = await post(sender, receiver.url())
    assert (outcome.result, outcome.status_code) == (Result.SUCCESS, 200)
    assert "Hookfast failed (RuntimeError)" in (outcome.error or "")


async def test_an_error_of_the_confirmation_is_raised(sender: Sender, receiver: Receiver) -> None:
    async def confirm() -> None:
        raise OperationalError("SELECT", {}, OSError("away"))

    with pytest.raises(OperationalError):
        await post(sender, receiver.url(), confirm=confirm)
    assert receiver.requests == []


async def test_a_tls_identity_that_became_unusable_is_named_and_the_replaced_one_is_used(
    authority: trustme.CA,
) -> None:
    """It was stored when OpenSSL, or the system's policy, still accepted it."""
    weak = TlsIdentity(**SHA1_IDENTITY, authorities=pem(authority))
    good = TlsIdentity(**client_identity(authority), authorities=pem(authority)).cleaned()
    context = demanding_context(authority, clients=authority)
    async with (
        Receiver(ssl_context=context) as receiver,
        Sender(guard=AddressGuard(LOOPBACK)) as sender,
    ):
        failed = await post(sender, receiver.url(), access=Access(tls=(weak,)))
        outcome = await post(sender, receiver.url(), access=Access(tls=(weak, good)))
    assert failed.result is Result.TLS
    assert failed.error is not None
    assert failed.error.startswith("The endpoint's TLS identity cannot be used (a certificate is ")
    assert failed.error.endswith("with SHA-256); replace it.")
    assert outcome.succeeded
