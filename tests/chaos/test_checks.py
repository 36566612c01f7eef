"""The checks of the chaos storm find the faults that they are for."""

from __future__ import annotations

from typing import Any

import pytest

from bench.chaos import checks
from bench.chaos.evidence import DROPPED, LEFT, Action, Fault, Request
from bench.chaos.storm import (
    API_KILLED,
    DISK_FULL,
    ENDPOINT_AWAY,
    TEMPORAL_KILLED,
    WORKER_KILLED,
    WORKER_STOPPED,
)
from hookfast.deliveries.figures import Key

SENDER, ANOTHER = 11, 12


def request(begun: float, **given: Any) -> Request:
    fields = {
        "message_id": "dlv_1",
        "attempt": 1,
        "path": "/steady",
        "sender": SENDER,
        "begun": begun,
        "ended": begun + 0.1,
        "status": 200,
    }
    return Request(**fields | given)


def action(action: str, answered: float, status: int | None = 202, **given: Any) -> Action:
    fields = {"delivery_id": "dlv_1", "begun": answered - 0.1}
    return Action(action=action, answered=answered, status=status, **fields | given)


def test_requests_beyond_the_first_are_counted_for_each_attempt() -> None:
    first, again, third = request(1), request(2), request(3)
    others = [request(4, attempt=2), request(5, message_id="dlv_2")]
    assert checks.repeated([third, first, again, *others]) == [(first, again), (again, third)]


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (Fault(WORKER_KILLED, 100.2, 101, SENDER), WORKER_KILLED),
        # noted a moment before the request was read, which the fault ended all the same
        (Fault(WORKER_KILLED, 99.9, 101, SENDER), WORKER_KILLED),
        (Fault(WORKER_STOPPED, 95, 101, SENDER), WORKER_STOPPED),
        (Fault(DISK_FULL, 99, 104), DISK_FULL),
        (Fault(TEMPORAL_KILLED, 101, 102), TEMPORAL_KILLED),
        (Fault(WORKER_KILLED, 101, 102, ANOTHER), f"another {WORKER_KILLED}"),
        # too long after or before the request
        (Fault(WORKER_KILLED, 120, 121, SENDER), checks.UNEXPLAINED),
        (Fault(WORKER_STOPPED, 70, 85, SENDER), checks.UNEXPLAINED),
        (Fault(DISK_FULL, 50, 60), checks.UNEXPLAINED),
        # these neither send nor record
        (Fault(API_KILLED, 100, 101), checks.UNEXPLAINED),
        (Fault(ENDPOINT_AWAY, 100, 101), checks.UNEXPLAINED),
    ],
)
def test_repeated_request_is_attributed_to_the_fault_that_prevented_the_record(
    fault: Fault, cause: str
) -> None:
    assert checks.cause_of(request(100), [fault]) == cause


def test_request_that_the_receiver_dropped_may_be_repeated_without_a_fault() -> None:
    assert checks.cause_of(request(100, status=DROPPED), []) == checks.CLOSED
    assert checks.cause_of(request(100, status=500), []) == checks.UNEXPLAINED


def test_fault_of_the_sending_worker_takes_precedence() -> None:
    faults = [Fault(DISK_FULL, 99, 104), Fault(WORKER_KILLED, 100.2, 101, SENDER)]
    assert checks.cause_of(request(100), faults) == WORKER_KILLED


@pytest.mark.parametrize(
    ("actions", "found"),
    [
        ([action("cancel", 5)], True),
        ([action("resend", 3), action("cancel", 5)], True),
        ([action("cancel", 10.5)], False),  # not answered yet
        ([action("cancel", 5, 409)], False),
        ([action("cancel", 5, None)], False),
        ([action("cancel", 5), action("resend", 8)], False),
        ([action("cancel", 5), action("resend", 12)], True),  # requested after the request
        ([action("resend", 3, None), action("cancel", 5)], False),  # may be committed after it
        ([action("cancel", 5, delivery_id="dlv_2")], False),
    ],
)
def test_request_after_a_cancel_is_found_unless_a_resend_was_requested(
    actions: list[Action], found: bool
) -> None:
    late = checks.after_cancel([request(10)], actions)
    assert [one for _, one in late] == ([request(10)] if found else [])


def test_unrecorded_success_needs_a_reason() -> None:
    made = [request(10), request(20, message_id="dlv_2"), request(30, message_id="dlv_3")]
    statuses = {"dlv_1": "dead", "dlv_2": "cancelled", "dlv_3": "delivered"}
    actions = [action("cancel", 19, delivery_id="dlv_2")]
    counted, unaccounted = checks.undelivered_successes(made, actions, [], statuses)
    assert counted == {"dead": 1, "cancelled": 1}
    assert unaccounted == [made[0]]
    died = [Fault(WORKER_KILLED, 10.1, 12, SENDER)]
    assert checks.undelivered_successes(made, actions, died, statuses)[1] == []


def test_delivered_row_without_a_success_at_the_receiver_is_found() -> None:
    made = [request(1, status=500), request(2, message_id="dlv_2"), request(3, status=LEFT)]
    statuses = {"dlv_1": "delivered", "dlv_2": "delivered", "dlv_3": "dead"}
    assert checks.delivered_unseen(made, statuses) == ["dlv_1"]


def test_accepted_event_without_all_its_deliveries_is_found() -> None:
    assert checks.missing({"evt_1": 1, "evt_2": 2, "evt_3": 0}, {"evt_1": 1, "evt_2": 1}) == [
        "evt_2"
    ]


def ended(number: int, endpoint_id: str = "ep_1", **key: Any) -> dict[Key, int]:
    fields = {"tenant_id": "", "event_type": "", "kind": "ended:dead:gone", "bucket": -1}
    return {Key(**{"gauge": False, "at": 0, "endpoint_id": endpoint_id, **fields, **key}): number}


@pytest.mark.parametrize(
    ("differences", "found"),
    [
        ({}, {}),
        (ended(2, kind="retrying", gauge=True), {"retrying of ep_1": 2}),
        (
            ended(-1, "tnt_1/types", event_type="a.b", kind="delivery:dead", at=60),
            {"delivery:dead of a.b of tnt_1/types at 1970-01-01 01:00": -1},
        ),
        # an end that is missing; ends of deliveries that were sent again, and one more
        (ended(-1), {"ended:dead:gone of ep_1": -1}),
        (ended(1) | ended(1, at=60), {}),
        (ended(1) | ended(2, at=60), {"ends of ep_1": 1}),
        (ended(1, "ep_2"), {"ends of ep_2": 1}),
        (ended(1, "all") | ended(1, "hours/ep_2"), {}),  # the endpoint's own are compared
    ],
)
def test_figures_that_disagree_with_the_rows_are_found(
    differences: dict[Key, int], found: dict[str, int]
) -> None:
    rows = [{"endpoint_id": "ep_1", "round": 2}, {"endpoint_id": "ep_2", "round": 0}]
    assert checks.drift(differences, rows) == found
