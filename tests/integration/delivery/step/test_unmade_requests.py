"""Requests that cannot be made, because our own code fails: each uses up an attempt with a reason,
so that no delivery is attempted for ever while nobody is told.

`tests/integration/sender/test_own_errors.py` makes each step of the sender fail in each way.
"""

from __future__ import annotations

import json
import ssl
from typing import Any
from unittest.mock import Mock, patch

import pytest
from joserfc.jwk import OKPKey
from sqlalchemy import update

from activities import body_maker
from hookfast.clock import utc_now
from hookfast.dispatch import request
from hookfast.errors import Misconfigured
from hookfast.sender import sender
from hookfast.sender.authorized import AuthorizedRequests
from hookfast.signing.encryption import Encryption
from hookfast.storage.tables import Endpoint
from tests.integration.delivery.circuits import QUICK as QUICK_CIRCUIT
from tests.integration.delivery.circuits import circuit
from tests.integration.delivery.plans import QUICK
from tests.integration.delivery.steps import Steps
from tests.support.certificates import SHA1_IDENTITY
from tests.support.seed import KEYRING

pytestmark = pytest.mark.anyio

JWK = OKPKey.generate_key("X25519", private=False).as_dict()
ENCRYPTION = {"jwk": {name: JWK[name] for name in ("kty", "crv", "x")}, "alg": "ECDH-ES+A256KW"}
STEPS: list[tuple[object, str, Exception]] = [
    (body_maker, "thin_body", RuntimeError("s3cret")),
    (request, "request_headers", ssl.SSLError("s3cret")),
    (Encryption, "encrypt", ValueError("s3cret")),
    (AuthorizedRequests, "send", OSError("s3cret")),
    (sender, "parse_url", Misconfigured("a setting is missing")),
]
ONE_RETRY = {"delays_seconds": [0.1], "jitter": 0, "retry_on": "all"}


async def test_an_error_in_any_step_uses_up_an_attempt_the_first_as_each_retry(
    steps: Steps,
) -> None:
    for owner, name, error in STEPS:
        endpoint = await steps.endpoint(
            "/ok", plan=ONE_RETRY, payload="thin", encryption=ENCRYPTION
        )
        delivery = await steps.deliver(endpoint)
        with patch.object(owner, name, Mock(side_effect=error)):
            row = await steps.run(delivery)
        assert_used_up(row, await steps.attempts(delivery), name)
    assert steps.receiver.requests == []


def assert_used_up(row: Any, attempts: list[Any], name: str) -> None:
    """Check that both attempts failed for a reason that shows nothing private."""
    made = [(one.trigger, one.result) for one in attempts]
    assert made == [("first", "internal"), ("retry", "internal")], name
    assert (row.status, row.reason) == ("dead", "retries_exhausted")
    assert row.last_error == attempts[-1].error
    assert row.last_error.startswith("The request could not be made: ")
    assert "s3cret" not in row.last_error


async def test_a_stored_tls_identity_that_cannot_be_loaded_opens_the_circuit(steps: Steps) -> None:
    endpoint = await steps.endpoint("/ok", plan=QUICK, circuit=QUICK_CIRCUIT)
    sealed = KEYRING.seal(json.dumps(SHA1_IDENTITY), context=f"{endpoint} (credential tls)")
    identity = {"kind": "tls", "sealed": sealed, "shown": {}, "created_at": "", "expires_at": None}
    async with steps.database.write() as connection:
        await connection.execute(
            update(Endpoint)
            .where(Endpoint.__table__.c.id == endpoint)
            .values(credentials=[identity], updated_at=utc_now())
        )
    delivery = await steps.deliver(endpoint)
    await steps.run(delivery)
    opened = await circuit(steps, endpoint)
    assert opened.state == "open"
    assert opened.last_error.startswith("The endpoint's TLS identity cannot be used")
    assert {one.result for one in await steps.attempts(delivery)} == {"tls"}


async def test_a_broken_answer_after_a_2xx_delivers_and_the_attempt_has_a_note(
    steps: Steps,
) -> None:
    delivery = await steps.deliver_to("/close-mid-headers")
    assert (await steps.row(delivery)).status == "delivered"
    [made] = await steps.attempts(delivery)
    assert (made.result, made.status_code) == ("success", 200)
    assert "the rest of its answer was lost" in made.error
    assert len(steps.receiver.requests) == 1
