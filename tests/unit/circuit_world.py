"""A small world around the circuit: deliveries, workers, the circuit's workflow and people act one
step at a time. Signals get lost, workers and Temporal forget what they had. The state moves only by
the functions of `hookfast.circuit`, as the activities and the storage apply them. Each step asserts
what it may not do; what holds between steps and in the end is in `test_circuit_world`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hookfast.circuit import (
    Admission,
    AttemptResult,
    Cause,
    Circuit,
    Gate,
    Policy,
    State,
    admit,
    after_attempt,
    begin_probe,
    claim_probe,
    closed,
    lose_probe,
    ramp_rate,
    release_all,
)

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
THRESHOLD, SPAN = 3, timedelta(seconds=10)
POLICY = Policy(failure_threshold=THRESHOLD, min_span=SPAN, probe_delays=(60, 120, 3600))
# A margin that is short beside the timeout: what it has to be long enough for happens more often.
TIMEOUT = timedelta(seconds=60)
LEASE = TIMEOUT + timedelta(seconds=10)
RETRY_AFTER = timedelta(minutes=1)
HOUR = timedelta(hours=1)
BACKSTOP = timedelta(hours=6)

WAITING = (State.OPEN, State.HALF_OPEN)
MOST = 5
DEEDS = ["pause", "resume", "disable", "enable", "probe"]
SPANS = [1, 12, 25, 40, 4_000, 22_000]


@dataclass
class Delivery:
    """A delivery's row and workflow. `held` is its row's; `order` is an attempt that was asked for,
    and is until it is recorded; `sent_at` is when its request began, None when none was made."""

    id: str
    due: datetime
    held: bool = False
    released: bool = False
    probe: bool = False
    resend: bool = False
    order: Order | None = None
    sent_at: datetime | None = None
    is_the_probe: bool = False
    ended: str | None = None


@dataclass(frozen=True)
class Order:
    """Why an attempt is made. One outside the plan moves its delivery only when it succeeds."""

    in_plan: bool = True
    by_hand: bool = False
    released: bool = False


class World(RuleBasedStateMachine):
    """One endpoint and its deliveries."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.endpoint = "enabled"
        self.circuit = Circuit()
        self.conducted_at: datetime | None = None
        self.deliveries: list[Delivery] = []  # those that have not ended
        self.emitted = 0
        self.failures: list[datetime] = []
        # the circuit's workflow: whether there is one, and until when it waits
        self.conducts = False
        self.wakes_at = START
        self.ramp_step = 0

    # -- what the storage does --------------------------------------------------------------

    def store(self, after: Circuit, *, by_probe: bool = False) -> None:
        before, self.circuit = self.circuit, after
        if after.state is State.OPEN and before.state in (State.CLOSED, State.DRAINING):
            assert len(self.failures) >= THRESHOLD
            if before.state is State.CLOSED:
                assert max(self.failures) - min(self.failures) >= SPAN
        if after.state is State.OPEN and before.state is State.HALF_OPEN:
            assert by_probe
        if after.state is State.DRAINING:  # a probe that is still under way decides nothing now
            for one in self.deliveries:
                one.is_the_probe = False
        self.conducted_at = (self.conducted_at or self.now) if after.conducted else None

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
        """Some deliveries, one of which has just failed that often."""
        for _ in range(failures):
            self.failures.append(self.now)
            result = AttemptResult(delivery_id="dlv_0", at=self.now, succeeded=False)
            self.store(after_attempt(self.circuit, result, policy=POLICY, now=self.now))
            self.now += SPAN
        for _ in range(number):
            self.emit()
        if probe and self.circuit.next_probe_at is not None:
            self.work_on_all(succeeds=True, steps=2)
            self.now = self.circuit.next_probe_at
            self.conduct_and_turn([])

    @rule()
    def emit(self) -> None:
        if len(self.deliveries) < MOST:
            self.deliveries.append(Delivery(f"dlv_{self.emitted:06}", due=self.now))
            self.emitted += 1

    @rule(which=st.integers(0, MOST - 1), succeeds=st.booleans())
    def work(self, which: int, succeeds: bool) -> None:
        """The next thing that can happen to a delivery happens."""
        if which < len(self.deliveries):
            self._work(self.deliveries[which], succeeds)

    @rule(succeeds=st.booleans(), steps=st.integers(1, 3))
    def work_on_all(self, succeeds: bool, steps: int) -> None:
        for _ in range(steps):
            for one in self.deliveries.copy():
                self._work(one, succeeds)

    def _work(self, one: Delivery, succeeds: bool) -> None:
        if one.order is None:
            one.order = self._next_order(one)
        elif one.sent_at is None:
            self._attempt(one, one.order)
        else:
            self._record(one, one.order, one.sent_at, succeeds)

    def _next_order(self, one: Delivery) -> Order | None:
        """What the delivery's workflow does when it looks at its signals and its timer."""
        if one.resend:
            one.resend = False
            return Order(in_plan=False, by_hand=True)
        if one.held and one.probe:
            one.probe = False
            return Order(in_plan=False)
        if one.due <= self.now or (one.held and one.released):
            released, one.released = one.released, False
            return Order(released=released)
        return None

    def _attempt(self, one: Delivery, order: Order) -> None:
        """The attempt's activity, up to the request."""
        verdict = admit(self.gate(), one.id, by_hand=order.by_hand, released=order.released)
        state = self.circuit.state
        if verdict is Admission.CLAIM:
            self.store(claim_probe(self.circuit, one.id, until=self.now + LEASE))
            assert self.circuit.probe_delivery_id == one.id
            verdict = Admission.SEND
        match verdict:
            case Admission.SEND:
                assert self.endpoint == "enabled" or (self.endpoint == "paused" and order.by_hand)
                assert state is not State.OPEN or order.by_hand
                one.sent_at = self.now
                one.is_the_probe = state is State.HALF_OPEN and not order.by_hand
            case Admission.HOLD:
                assert not order.by_hand
                one.held, one.order, one.due = True, None, self.now + BACKSTOP
            case Admission.REFUSE:
                one.order = None
                if order.in_plan:
                    self._end(one, "dead")

    def _record(self, one: Delivery, order: Order, sent_at: datetime, succeeds: bool) -> None:
        result = AttemptResult(delivery_id=one.id, at=sent_at, succeeded=succeeds)
        old = self.circuit.opened_at is not None and sent_at < self.circuit.opened_at
        if not succeeds:
            self.failures.append(sent_at)
        elif not (old and self.circuit.state in WAITING):
            self.failures.clear()
        is_probe = self.circuit.probe_delivery_id == one.id
        after = after_attempt(self.circuit, result, policy=POLICY, now=self.now)
        one.order = one.sent_at = None
        one.is_the_probe = False
        if succeeds:
            self._end(one, "delivered")
        elif order.in_plan:
            one.held, one.due = False, self.now + RETRY_AFTER
        self.store(after, by_probe=is_probe)

    def _end(self, one: Delivery, how: str) -> None:
        one.ended = how
        self.deliveries.remove(one)

    @rule(which=st.sets(st.integers(0, MOST - 1), min_size=1))
    def workers_die(self, which: set[int]) -> None:
        """Their requests are broken off; the attempts will be made again."""
        for index in which & set(range(len(self.deliveries))):
            self.deliveries[index].sent_at = None

    @rule()
    def temporal_forgets(self) -> None:
        """Every workflow and signal is lost; what is left is the rows. Attempts under way are begun
        anew as the sweep for lost deliveries does."""
        self.conducts = False
        for one in self.deliveries:
            one.released = one.probe = one.resend = False
            one.order = one.sent_at = None

    # -- the circuit's workflow -------------------------------------------------------------

    @rule()
    def conduct(self) -> None:
        """The conductor starts or wakes the workflow of a circuit that asks."""
        if self.circuit.state is not State.CLOSED and not self.circuit.conducted:
            self.store(replace(self.circuit, conducted=True))
            self.conducts, self.wakes_at = True, self.now

    @rule(arrive=st.lists(st.booleans(), max_size=MOST))
    def conduct_and_turn(self, arrive: list[bool]) -> None:
        self.conduct()
        for _ in range(3):
            self.turn(arrive)

    @rule()
    def sweep(self) -> None:
        """Circuits that have not moved for an hour ask again."""
        since, due = self.now - HOUR, self.circuit.next_probe_at
        unmoved = self.conducted_at is not None and self.conducted_at < since
        if self.circuit.state is not State.CLOSED and unmoved and (due is None or due < since):
            self.store(replace(self.circuit, conducted=False))

    @rule(arrive=st.lists(st.booleans(), max_size=MOST))
    def turn(self, arrive: list[bool]) -> None:
        """The workflow does the next thing; `arrive` says which of its signals do."""
        if not self.conducts or self.now < self.wakes_at:
            return
        if self.endpoint == "disabled" and self.circuit.state in WAITING:
            self.store(release_all(self.circuit, Cause.DISABLED, now=self.now))
        if self.circuit.state is not State.CLOSED:
            self.store(replace(self.circuit, conducted=True))
        if self.endpoint == "paused" and self.circuit.state is not State.CLOSED:
            self.wakes_at = self.now + HOUR
            return
        match self.circuit.state:
            case State.CLOSED:
                self.conducts = False
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
        if lost or not self._signal_probe(probe, all(arrive)):
            self.store(lose_probe(circuit, probe), by_probe=True)

    def _drain(self, arrive: list[bool]) -> None:
        if not self.held():
            self.store(closed(self.circuit, held=0))
            self.ramp_step = 0
            return
        self.store(replace(self.circuit, drain_rate=ramp_rate(self.ramp_step, None)))
        self.ramp_step += 1
        for index, one in enumerate(self.held()):
            one.released |= index >= len(arrive) or arrive[index]

    def _signal_probe(self, delivery_id: str, arrives: bool) -> bool:
        """False when the delivery has ended: there is nothing to wait for."""
        for one in self.deliveries:
            if one.id == delivery_id:
                one.probe |= arrives
                return True
        return False

    # -- people and time --------------------------------------------------------------------

    @rule(which=st.integers(0, MOST - 1))
    def send_by_hand(self, which: int) -> None:
        if which < len(self.deliveries):
            self.deliveries[which].resend = True

    @rule(which=st.integers(0, MOST - 1))
    def cancel(self, which: int) -> None:
        if which < len(self.deliveries) and self.deliveries[which].sent_at is None:
            self._end(self.deliveries[which], "cancelled")

    @rule(does=st.sampled_from(DEEDS))
    def somebody(self, does: str) -> None:
        """As `hookfast.storage.endpoint_state` does it."""
        match does, self.endpoint:
            case "pause", "enabled":
                self.endpoint = "paused"
            case (("resume" | "enable"), "paused"):
                self._resume()
            case "enable", "disabled":
                self.endpoint = "enabled"
                self.failures.clear()
                after = release_all(self.circuit, Cause.RESUMED, now=self.now)
                after = replace(after, consecutive_failures=0, first_failure_at=None)
                self.store(closed(after, held=len(self.held())))
            case "disable", ("enabled" | "paused"):
                self._disable(Cause.DISABLED)
            case "probe", _ if self.circuit.state in WAITING:
                self.store(replace(self.circuit, next_probe_at=self.now, conducted=False))

    def _resume(self) -> None:
        self.endpoint = "enabled"
        if self.circuit.state in WAITING:
            self.store(replace(self.circuit, next_probe_at=self.now, conducted=False))
        else:
            after = release_all(self.circuit, Cause.RESUMED, now=self.now)
            self.store(closed(after, held=len(self.held())))

    def _disable(self, cause: Cause) -> None:
        self.endpoint = "disabled"
        self.store(release_all(self.circuit, cause, now=self.now))

    @rule(cause=st.sampled_from([Cause.GONE, Cause.GAVE_UP]))
    def it_is_given_up(self, cause: Cause) -> None:
        if self.endpoint != "disabled" and (cause is Cause.GONE or self.circuit.state in WAITING):
            self._disable(cause)

    @rule(seconds=st.sampled_from(SPANS))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def time_passes_until_something_is_due(self) -> None:
        due = [one.due for one in self.deliveries]
        due += [self.wakes_at] if self.conducts else []
        self.now = min((moment for moment in due if moment > self.now), default=self.now)
