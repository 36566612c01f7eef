"""Lean routes support what they declare, and reject unsupported declarations at start."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, Query, Response

from api.http.lean_route import LeanRoute
from api.routes.emit import EmittedBatch, EmittedEvent, _accepted, _item, _members
from hookfast.clock import utc_now
from hookfast.errors import Conflict
from hookfast.storage.emitting.emit import Accepted
from hookfast.storage.events.new_events import CommittedEvent

EVENT = CommittedEvent(
    id="evt_1", type="order.invoice.paid", created_at=utc_now(), deliveries=2, sha256=None
)


async def with_query(limit: Annotated[int, Query()] = 1) -> Response:
    return Response()


async def with_response(response: Response) -> Response:
    return response


def not_async() -> int:
    return 1


async def with_blocking_dependency(number: Annotated[int, Depends(not_async)]) -> Response:
    return Response()


@pytest.mark.parametrize("endpoint", [with_query, with_response, with_blocking_dependency])
def test_lean_route_rejects_unsupported_declarations_at_start(endpoint: Any) -> None:
    router = APIRouter(route_class=LeanRoute)
    with pytest.raises(TypeError, match="does not support"):
        router.add_api_route("/", endpoint, methods=["POST"])


def test_responses_written_without_a_model_equal_the_models() -> None:
    single = _accepted(_members(EVENT)).body
    assert single == EmittedEvent.model_validate_json(single).model_dump_json().encode()

    items = [_item(Accepted(EVENT, replayed=True)), _item(Conflict("Möwe", code="taken"))]
    batch = _accepted({"data": items, "accepted": 1, "rejected": 1}).body
    assert batch == EmittedBatch.model_validate_json(batch).model_dump_json().encode()
