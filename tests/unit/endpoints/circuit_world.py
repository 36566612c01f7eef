"""A small world around the circuit. Deliveries, workers, the circuit's workflow and people act one
step at a time; signals get lost, workers die, and Temporal loses its data. The state changes only
by the functions of `endpoints.circuit` and `deliveries.life`, as activities and storage apply them.
Each step asserts its own rules; `test_circuit_world` has those between steps and at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hookfast.deliveries.facts import (
    Action,
    AttemptEnded,
    AttemptPlan,
    Fact,
    Held,
    Trigger,
    Undeliverable,
)
from hookfast.deliveries.life import Life, Phase, apply_fact
from hookfast.deliveries.outcome import Outcome, Reason, Result
from hookfast.deliveries.retry_plan import PlanSpec
from hookfast.endpoints.circuit import (
    Cause,
    Circuit,
    EndpointState,
    Policy,
    State,
    abandon_probe,
    after_attempt,
    begin_probe,
    claim_probe,
    closed,
    ramp_rate,
    release_all,
)
from hookfast.endpoints.gate import Admission, Gate, due_attempt

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
THRESHOLD, SPAN = 3, timedelta(seconds=10)
POLICY = Policy(failure_threshold=THRESHOLD, min_span=SPAN, probe_delays=(60, 120, 3600))
# The margin is short beside the timeout, so that probes run into it more often.
TIMEOUT = timedelta(seconds=60)
LEASE = TIMEOUT + timedelta(seconds=10)
PLAN: PlanSpec = {"delays_seconds": [60] * 100, "jitter": 0}
HOUR = timedelta(hours=1)
BACKSTOP = timedelta(hours=6)

WAITING = (State.OPEN, State.HALF_OPEN)
MOST = 5
FIRST = AttemptPlan(number=1, trigger=Trigger.FIRST, round=0, in_plan=True)
ACTIONS = ["pause", "resume", "disable", "enable", "probe"]
SPANS = [1, 12, 25, 40, 4_000, 22_000]


@dataclass
class Delivery:
    """A delivery's row and workflow. `attempt_due` is the attempt that a worker makes, until it is
    recorded; `sent_at` is when its request began, if it did. `awake`: the workflow was woken."""

    id: str
    life: Life
    awake: bool = True
    attempt_due: AttemptPlan | None = None
    sent_at: datetime | None = None
    is_the_probe: bool = False

    @property
    def held(self) -> bool:
        return self.life.phase is Phase.HELD

    def is_due(self, now: datetime) -> bool:
        """Whether its workflow reads the row, by its timer or because it was woken."""
        moment = self.life.next_attempt_at
        return self.awake or (moment is not None and moment <= now)


def is_by_person(attempt: AttemptPlan) -> bool:
    """Whether a person requested the attempt, which is sent whatever the circuit's state."""
    return attempt.trigger is Trigger.RESEND and not attempt.yields_to_circuit


class World(RuleBasedStateMachine):
    """One endpoint and its deliveries."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.endpoint = EndpointState.ENABLED
        self.circuit = Circuit()
        self.workflow_started_at: datetime | None = None
        self.deliveries: list[Delivery] = []  # those that have not ended
        self.emitted = 0
        self.failures: list[datetime] = []
        # the circuit's workflow: whether it runs, and until when it waits
        self.workflow_runs = False
        self.wakes_at = START
        self.ramp_step = 0

    # -- storage ----------------------------------------------------------------------------

    def store(self, changed: Circuit, *, by_probe: bool = False) -> None:
        before, self.circuit = self.circuit, changed
        if changed.state is State.OPEN and before.state in (State.CLOSED, State.DRAINING):
            assert len(self.failures) >= THRESHOLD
            if before.state is State.CLOSED:
                assert max(self.failures) - min(self.failures) >= SPAN
        if changed.state is State.OPEN and before.state is State.HALF_OPEN:
            assert by_probe
        if changed.state is State.DRAINING:  # a probe that is still in progress decides nothing now
            for one in self.deliveries:
                one.is_the_probe = False
        self.workflow_started_at = (
            (self.workflow_started_at or self.now) if changed.workflow_started else None
        )

    def apply(self, one: Delivery, fact: Fact) -> None:
        """Apply a fact to a delivery's row."""
        one.life = apply_fact(one.life, fact, now=self.now)
        if one.life.phase.ended:
            self.deliveries.remove(one)

    def held(self) -> list[Delivery]:
        return [one for one in self.deliveries if one.held]

    def gate(self) -> Gate:
        return Gate(
            endpoint_state=self.endpoint,
            state=self.circuit.state,
            probe_delivery_id=self.circuit.probe_delivery_id,
            drain_rate=self.circuit.drain_rate,
        )

    # -- deliveries and the workers that attempt them ---------------------------------------

    @initialize(
        number=st.integers(1, MOST), failures=st.integers(0, THRESHOLD), probe=st.booleans()
    )
    def begin(self, number: int, failures: int, probe: bool) -> None:
        """Begin with some deliveries, after this many failures."""
        for _ in range(failures):
            self.failures.append(self.now)
            failed = ended(FIRST, self.now, self.now, succeeds=False)
            self.store(self._after(failed, "dlv_0"))
            self.now += SPAN
        for _ in range(number):
            self.emit()
        if probe and self.circuit.next_probe_at is not None:
            self.work_on_all(succeeds=True, steps=2)
            self.now = self.circuit.next_probe_at
            self.start_and_turn([])

    @rule()
    def emit(self) -> None:
        if len(self.deliveries) < MOST:
            self.deliveries.append(Delivery(f"dlv_{self.emitted:06}", Life(due_at=self.now)))
            self.emitted += 1

    @rule(which=st.integers(0, MOST - 1), succeeds=st.booleans())
    def work(self, which: int, succeeds: bool) -> None:
        """Take a delivery's next step."""
        if which < len(self.deliveries):
            self._work(self.deliveries[which], succeeds)

    @rule(succeeds=st.booleans(), steps=st.integers(1, 3))
    def work_on_all(self, succeeds: bool, steps: int) -> None:
        for _ in range(steps):
            for one in self.deliveries.copy():
                self._work(one, succeeds)

    def _work(self, one: Delivery, succeeds: bool) -> None:
        if one.attempt_due is None:
            one.attempt_due = self._next_attempt(one)
        elif one.sent_at is None:
            self._attempt(one, one.attempt_due)
        else:
            self._record(one, one.attempt_due, one.sent_at, succeeds)

    def _next_attempt(self, one: Delivery) -> AttemptPlan | None:
        """Return the attempt that the delivery's workflow finds due in the row."""
        if not one.is_due(self.now):
            return None
        one.awake = False
        return due_attempt(one.life, self.gate(), one.id, self.now)[0]

    def _attempt(self, one: Delivery, attempt: AttemptPlan) -> None:
        """Run the attempt's activity up to the request."""
        state = self.circuit.state
        due, decision = due_attempt(one.life, self.gate(), one.id, self.now)
        if due != attempt:
            one.attempt_due, one.awake = None, True  # the delivery has moved on: read again
            return
        by_person = is_by_person(attempt)
        if decision in (Admission.CLAIM, Admission.PROBE):
            self.store(claim_probe(self.circuit, one.id, until=self.now + LEASE))
            assert self.circuit.probe_delivery_id == one.id
            decision = Admission.SEND
        match decision:
            case Admission.SEND:
                assert not self.endpoint.stopped
                assert by_person or self.endpoint is EndpointState.ENABLED
                assert by_person or state is not State.OPEN
                one.sent_at = self.now
                one.is_the_probe = state is State.HALF_OPEN and not by_person
            case Admission.HOLD:
                assert not by_person
                one.attempt_due = None
                self.apply(one, Held(attempt, Reason.CIRCUIT_OPEN, self.now + BACKSTOP))
                assert one.held
            case Admission.DEAD_LETTER:
                one.attempt_due = None
                self.apply(one, Undeliverable(attempt, Reason.ENDPOINT_DISABLED, "disabled"))

    def _record(
        self, one: Delivery, attempt: AttemptPlan, sent_at: datetime, succeeds: bool
    ) -> None:
        old = self.circuit.opened_at is not None and sent_at < self.circuit.opened_at
        if not succeeds:
            self.failures.append(sent_at)
        elif not (old and self.circuit.state in WAITING):
            self.failures.clear()
        is_probe = self.circuit.probe_delivery_id == one.id
        was_held = one.held
        one.attempt_due = one.sent_at = None
        one.is_the_probe = False
        fact = ended(attempt, sent_at, self.now, succeeds=succeeds)
        self.apply(one, fact)
        changed = self._after(fact, one.id, was_held=was_held and not one.held)
        self.store(changed, by_probe=is_probe)

    def _after(self, fact: AttemptEnded, delivery_id: str, *, was_held: bool = False) -> Circuit:
        return after_attempt(
            self.circuit,
            fact,
            delivery_id=delivery_id,
            was_held=was_held,
            policy=POLICY,
            now=self.now,
        )

    @rule(which=st.sets(st.integers(0, MOST - 1), min_size=1))
    def workers_die(self, which: set[int]) -> None:
        """Break off the requests of these deliveries; their attempts will be made again."""
        for index in which & set(range(len(self.deliveries))):
            self.deliveries[index].sent_at = None

    @rule()
    def temporal_forgets(self) -> None:
        """Lose every workflow and signal, and keep the rows. Attempts in progress are started
        again, as by the sweep for lost deliveries."""
        self.workflow_runs = False
        for one in self.deliveries:
            one.awake = False
            one.attempt_due = one.sent_at = None

    # -- the circuit's workflow -------------------------------------------------------------

    @rule()
    def start_requested(self) -> None:
        """Start or wake the workflow that a circuit requests, as the workflow starter does."""
        if self.circuit.state is not State.CLOSED and not self.circuit.workflow_started:
            self.store(replace(self.circuit, workflow_started=True))
            self.workflow_runs, self.wakes_at = True, self.now

    @rule(arrive=st.lists(st.booleans(), max_size=MOST))
    def start_and_turn(self, arrive: list[bool]) -> None:
        self.start_requested()
        for _ in range(3):
            self.turn(arrive)

    @rule()
    def sweep(self) -> None:
        """Let a circuit without progress for an hour request its workflow again."""
        since, due = self.now - HOUR, self.circuit.next_probe_at
        unmoved = self.workflow_started_at is not None and self.workflow_started_at < since
        if self.circuit.state is not State.CLOSED and unmoved and (due is None or due < since):
            self.store(replace(self.circuit, workflow_started=False))

    @rule(arrive=st.lists(st.booleans(), max_size=MOST))
    def turn(self, arrive: list[bool]) -> None:
        """Let the workflow take its next step; `arrive` says which of its signals arrive."""
        if not self.workflow_runs or self.now < self.wakes_at:
            return
        if self.endpoint.stopped and self.circuit.state in WAITING:
            self.store(release_all(self.circuit, Cause.DISABLED, now=self.now))
        if self.circuit.state is not State.CLOSED:
            self.store(replace(self.circuit, workflow_started=True))
        if self.endpoint is EndpointState.PAUSED and self.circuit.state is not State.CLOSED:
            self.wakes_at = self.now + HOUR
            return
        match self.circuit.state:
            case State.CLOSED:
                self.workflow_runs = False
            case State.DRAINING:
                self._drain(arrive)
            case State.OPEN | State.HALF_OPEN:
                self._probe(arrive)

    def _probe(self, arrive: list[bool]) -> None:
        circuit, probe = self.circuit, self.circuit.probe_delivery_id
        if probe is None:
            if circuit.next_probe_at is not None and self.now < circuit.next_probe_at:
                self.wakes_at = circuit.next_probe_at
                return
            held = [one.id for one in self.held()]
            later = [one for one in held if one > (circuit.probed_last or "")]
            probe = (later or held or [None])[0]
            circuit = begin_probe(circuit, probe, until=self.now + LEASE)
            if probe is None:
                delay = POLICY.probe_delay(circuit.probes)
                circuit = replace(circuit, next_probe_at=self.now + delay)
            self.store(circuit)
        if probe is None:
            return
        assert circuit.probe_until is not None
        lost = self.now >= circuit.probe_until
        if lost or not self._wake_probe(probe, all(arrive)):
            self.store(abandon_probe(circuit, probe), by_probe=True)

    def _drain(self, arrive: list[bool]) -> None:
        if not self.held():
            self.store(closed(self.circuit, held=0))
            self.ramp_step = 0
            return
        self.store(replace(self.circuit, drain_rate=ramp_rate(self.ramp_step, None)))
        self.ramp_step += 1
        for index, one in enumerate(self.held()):
            if not one.life.released and (index >= len(arrive) or arrive[index]):
                self.apply(one, Action.RELEASE)
                one.awake = True

    def _wake_probe(self, delivery_id: str, arrives: bool) -> bool:
        """Wake the probe. Return False if the delivery has ended."""
        for one in self.deliveries:
            if one.id == delivery_id:
                one.awake |= arrives
                return True
        return False

    # -- people and time --------------------------------------------------------------------

    @rule(which=st.integers(0, MOST - 1), yields_to_circuit=st.booleans())
    def resend(self, which: int, yields_to_circuit: bool) -> None:
        """Resend by a person, or by a job for many."""
        if which < len(self.deliveries):
            self.apply(
                self.deliveries[which],
                Action.RESEND_YIELDING if yields_to_circuit else Action.RESEND,
            )
            self.deliveries[which].awake = True

    @rule(which=st.integers(0, MOST - 1))
    def cancel(self, which: int) -> None:
        if which < len(self.deliveries) and self.deliveries[which].sent_at is None:
            self.apply(self.deliveries[which], Action.CANCEL)

    @rule(does=st.sampled_from(ACTIONS))
    def person_acts(self, does: str) -> None:
        """Apply a person's action as `hookfast.storage.endpoints.endpoint_state` does."""
        match does, self.endpoint:
            case "pause", EndpointState.ENABLED:
                self.endpoint = EndpointState.PAUSED
            case (("resume" | "enable"), EndpointState.PAUSED):
                self._resume()
            case "enable", EndpointState.DISABLED:
                self.endpoint = EndpointState.ENABLED
                self.failures.clear()
                changed = release_all(self.circuit, Cause.RESUMED, now=self.now)
                changed = replace(changed, consecutive_failures=0, first_failure_at=None)
                self.store(closed(changed, held=len(self.held())))
            case "disable", (EndpointState.ENABLED | EndpointState.PAUSED):
                self._disable(Cause.DISABLED)
            case "probe", _ if self.circuit.state in WAITING:
                self.store(replace(self.circuit, next_probe_at=self.now, workflow_started=False))

    def _resume(self) -> None:
        self.endpoint = EndpointState.ENABLED
        if self.circuit.state in WAITING:
            self.store(replace(self.circuit, next_probe_at=self.now, workflow_started=False))
        else:
            changed = release_all(self.circuit, Cause.RESUMED, now=self.now)
            self.store(closed(changed, held=len(self.held())))

    def _disable(self, cause: Cause) -> None:
        self.endpoint = EndpointState.DISABLED
        self.store(release_all(self.circuit, cause, now=self.now))

    @rule(cause=st.sampled_from([Cause.GONE, Cause.GAVE_UP]))
    def endpoint_is_disabled_by_itself(self, cause: Cause) -> None:
        if not self.endpoint.stopped and (cause is Cause.GONE or self.circuit.state in WAITING):
            self._disable(cause)

    @rule(seconds=st.sampled_from(SPANS))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def time_passes_until_something_is_due(self) -> None:
        due = [one.life.next_attempt_at for one in self.deliveries]
        due += [self.wakes_at] if self.workflow_runs else []
        later = (moment for moment in due if moment is not None and moment > self.now)
        self.now = min(later, default=self.now)


def ended(
    attempt: AttemptPlan, sent_at: datetime, now: datetime, *, succeeds: bool
) -> AttemptEnded:
    """Return an attempt that ended at its deadline at the latest, even if recorded later."""
    return AttemptEnded(
        attempt_id=f"att_{attempt.number}",
        attempt=attempt,
        started_at=sent_at,
        outcome=Outcome(
            result=Result.SUCCESS if succeeds else Result.STATUS,
            duration_ms=min(now - sent_at, TIMEOUT) / timedelta(milliseconds=1),
            status_code=200 if succeeds else 503,
            error=None if succeeds else "503",
        ),
        plan=PLAN,
        timeout_seconds=TIMEOUT.total_seconds(),
        jitter=0.5,
    )
