"""Requests that cannot be made, in a whole worker: deliveries to other endpoints go on."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock, patch

import pytest

from hookfast.storage.deliveries.recorder import Recorder
from tests.integration.delivery.conftest import Stack
from tests.integration.delivery.step.test_unmade_requests import (
    ENCRYPTION,
    ONE_RETRY,
    STEPS,
    assert_used_up,
)

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]


@pytest.mark.parametrize("first_attempts", ["batch"], scope="module")
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
        assert_used_up(row, await stack.attempts(delivery), name)
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
