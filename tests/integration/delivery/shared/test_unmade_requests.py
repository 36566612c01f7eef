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

from activities import attempt
from hookfast.clock import utc_now
from hookfast.dispatch import request
from hookfast.errors import Misconfigured
from hookfast.sender import sender
from hookfast.sender.authorized import AuthorizedRequests
from hookfast.signing.encryption import Encryption
from hookfast.storage.deliveries.recorder import Recorder
from hookfast.storage.tables import Endpoint
from tests.integration.delivery.circuits import QUICK as QUICK_CIRCUIT
from tests.integration.delivery.circuits import until_circuit
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.plans import QUICK
from tests.support.certificates import SHA1_IDENTITY
from tests.support.seed import KEYRING

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

JWK = OKPKey.generate_key("X25519", private=False).as_dict()
ENCRYPTION = {"jwk": {name: JWK[name] for name in ("kty", "crv", "x")}, "alg": "ECDH-ES+A256KW"}
STEPS: list[tuple[object, str, Exception]] = [
    (attempt, "thin_body", RuntimeError("s3cret")),
    (request, "request_headers", ssl.SSLError("s3cret")),
    (Encryption, "encrypt", ValueError("s3cret")),
    (AuthorizedRequests, "send", OSError("s3cret")),
    (sender, "parse_url", Misconfigured("a setting is missing")),
]
ONE_RETRY = {"delays_seconds": [0.1], "jitter": 0, "retry_on": "all"}


@pytest.mark.parametrize("first_attempts", ["workflow", "batch"], scope="module")
async def test_an_error_in_any_step_uses_up_an_attempt_the_first_as_each_retry(
    stack: Stack,
) -> None:
    for owner, name, error in STEPS:
        endpoint = await stack.endpoint(
            "/ok", plan=ONE_RETRY, payload="thin", encryption=ENCRYPTION
        )
        with patch.object(owner, name, Mock(side_effect=error)):
            delivery = await stack.deliver(endpoint)
            row = await stack.until_status(delivery, "dead")
        attempts = await stack.attempts(delivery)
        made = [(one.trigger, one.result) for one in attempts]
        assert made == [("first", "internal"), ("retry", "internal")], name
        assert (row.reason, row.last_error) == ("retries_exhausted", attempts[-1].error)
        assert row.last_error.startswith("The request could not be made: ")
        assert "s3cret" not in row.last_error
    assert stack.receiver.requests == []


DAMAGED: list[dict[str, Any]] = [
    {"secrets": [{"sealed": "AAAA", "created_at": "", "expires_at": None}]},
    {"secrets": [5]},
    {"headers": {"X-Key": {"sealed": "zzz"}}},
    {"credentials": [{"kind": "tls", "sealed": "x", "shown": {}, "expires_at": None}]},
    {"encryption": {"jwk": {"kty": "XX"}}},
    {"signatures": ["foo"]},
    {"allowed_networks": ["somewhere"]},
    {"retry_plan": {"delays_seconds": "often"}},
    {"secrets": [5], "circuit": {"failure_threshold": "x"}},
]


@pytest.mark.parametrize("first_attempts", ["workflow", "batch"], scope="module")
async def test_a_damaged_endpoint_fails_its_attempts_and_the_others_go_on(stack: Stack) -> None:
    damaged = [await stack.endpoint("/ok", plan=ONE_RETRY, **columns) for columns in DAMAGED]
    deliveries = [await stack.deliver(one) for one in damaged]
    await stack.deliver_until("delivered", "/ok")
    for columns, delivery in zip(DAMAGED, deliveries, strict=True):
        ends = "retrying" if "retry_plan" in columns else "dead"
        await stack.until_status(delivery, ends)
        for made in await stack.attempts(delivery):
            assert made.result == "internal", columns
            assert made.error.startswith("The request could not be made: ")
    assert len(stack.receiver.requests) == 1


async def test_a_stored_tls_identity_that_cannot_be_loaded_opens_the_circuit(stack: Stack) -> None:
    endpoint = await stack.endpoint("/ok", plan=QUICK, circuit=QUICK_CIRCUIT)
    sealed = KEYRING.seal(json.dumps(SHA1_IDENTITY), context=f"{endpoint} (credential tls)")
    identity = {"kind": "tls", "sealed": sealed, "shown": {}, "created_at": "", "expires_at": None}
    async with stack.database.write() as connection:
        await connection.execute(
            update(Endpoint)
            .where(Endpoint.__table__.c.id == endpoint)
            .values(credentials=[identity], updated_at=utc_now())
        )
    delivery = await stack.deliver(endpoint)
    circuit = await until_circuit(stack, endpoint, "open")
    assert circuit.last_error.startswith("The endpoint's TLS identity cannot be used")
    assert {one.result for one in await stack.attempts(delivery)} == {"tls"}


async def test_a_broken_answer_after_a_2xx_delivers_and_the_attempt_has_a_note(
    stack: Stack,
) -> None:
    delivery = await stack.deliver_until("delivered", "/close-mid-headers")
    [attempt] = await stack.attempts(delivery)
    assert (attempt.result, attempt.status_code) == ("success", 200)
    assert "the rest of its answer was lost" in attempt.error
    assert len(stack.receiver.requests) == 1


async def test_an_unexpected_error_of_the_record_never_repeats_the_request(stack: Stack) -> None:
    record, failing = Recorder.record, iter([ValueError("a bug")] * 200)
    under_way = True

    async def fail(*given: Any, **options: Any) -> Any:
        if under_way:
            raise next(failing)
        return await record(*given, **options)

    with patch.object(Recorder, "record", fail):
        delivery = await stack.deliver(await stack.endpoint("/ok"))
        await stack.receiver.wait_for(1)
        under_way = False
        await stack.until_status(delivery, "delivered")
    assert len(stack.receiver.requests) == 1
