"""What a delivery waits for between attempts: its plan's timer, a person, its endpoint's circuit or
limits. Signals only change the delivery's `Progress`; here is what comes of them, and in which
order.

A resend goes before everything but `cancel`, whether the delivery is paused or held, and so it does
once its endpoint's limits let it (`resend_after`). A pause stops everything else. What the circuit
or the limits put off waits for them, and only then the plan's timer counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from temporalio import workflow

from hookfast.clock import rfc3339
from hookfast.delivery import Progress, PutOff, Trigger
from hookfast.outcome import DeliveryStatus
from workflows.delivery_standing import Standing

OWN_TURN = "a-limited-resend-or-probe-has-its-own-turn"
"""Patch: before, one that met the endpoint's limits was forgotten where the delivery was paused or
held, and the plan's own attempt was made when its turn came."""
SEES_RESUMES = "a-resume-is-seen-whenever-it-comes"
"""Patch: before, one that came during a resend, or with the start of a workflow that had been lost,
left the delivery's row `paused` until its next attempt, and the pause used up its plan."""
LET_GO = "what-is-let-go-is-held-no-more"
"""Patch: before, a gentle resend that was held, let go, and then failed (or met a limit, or an
endpoint that was disabled) left its delivery `held` until the plan's next attempt, and its circuit
could not close before that."""
_LIMIT = "the endpoint's limit"


class Waiting:
    """Waits for the next reason to attempt."""

    def __init__(self, now: Progress, standing: Standing) -> None:
        self._now = now
        self._standing = standing
        self._moved = False  # what is waited for, to another moment

    async def until_due(self) -> Trigger | None:
        """Wait for the next reason to attempt. None: a person cancelled."""
        now = self._now
        while True:
            if now.cancel:
                return None
            if now.resend and _is_past(now.resend_after):
                return self._take_resend()
            if now.paused:
                await self._while_paused()
            elif now.status is DeliveryStatus.PAUSED and workflow.patched(SEES_RESUMES):
                await self._resumed(now.paused_at or workflow.now())
            elif now.put_off is not None:
                if (trigger := await self._while_put_off(now.put_off)) is not None:
                    return trigger
            elif _is_past(now.due_at):
                return Trigger.RETRY if now.attempts else Trigger.FIRST
            else:
                await self._until_planned()

    def put_off(self, trigger: Trigger, until: datetime, *, held: bool) -> None:
        """The attempt could not be made yet: have it made at `until`, or, `held`, at a release."""
        now = self._now
        beside_the_plan = trigger in (Trigger.RESEND, Trigger.PROBE)
        if beside_the_plan and not held and workflow.patched(OWN_TURN):
            self._wait_a_turn(trigger, until)
            return
        earlier = now.put_off  # a resend or probe in the middle changes only how long
        now.put_off = PutOff(
            trigger=trigger if earlier is None else earlier.trigger,
            since=workflow.now() if earlier is None else earlier.since,
            until=until,
            held=held,
            gently=now.gently if earlier is None else earlier.gently,
        )
        if held:
            self._standing.become(DeliveryStatus.HELD)
        elif now.status is DeliveryStatus.HELD:
            self._standing.become(now.waiting_status)

    def ask_again(self) -> None:
        """Have whatever waits for the endpoint's limits ask them now."""
        now, moment = self._now, workflow.now()
        if now.put_off is not None and not now.put_off.held:
            now.put_off = replace(now.put_off, until=moment)
        if now.resend_after is not None:
            now.resend_after = moment
        if now.probe_after is not None:
            now.probe_after = moment
        self._moved = True

    # -- a resend and a probe, which have their own turn ---------------------------------------

    def _wait_a_turn(self, trigger: Trigger, until: datetime) -> None:
        """The endpoint's limits put off what is beside the plan: the plan stays as it was."""
        now = self._now
        if trigger is Trigger.PROBE:
            now.probe, now.probe_after = True, until
            return
        if now.status.finished:
            self._standing.become(now.waiting_status)
        if now.first_attempt_at is None and _is_past(now.due_at):
            now.due_at = until  # the plan begins with it, and not before
        if not now.resend:  # one that came meanwhile goes at once
            now.resend, now.resend_after = True, until
            now.resend_gently, now.gently = now.gently, False

    def _take_resend(self) -> Trigger:
        now = self._now
        now.resend = False
        if now.resend_after is not None:
            now.resend_after = None
            now.waited = True
            now.gently = now.resend_gently
        return Trigger.RESEND

    def _take_probe(self) -> Trigger:
        now = self._now
        now.probe = False
        if now.probe_after is not None:
            now.probe_after = None
            now.waited = True
        return Trigger.PROBE  # whatever comes of it, the attempt itself stays put off

    def _forget_probe(self) -> None:
        if self._now.probe_after is not None:
            self._now.probe, self._now.probe_after = False, None

    # -- the waits ------------------------------------------------------------------------------

    async def _until_planned(self) -> None:
        now = self._now
        if now.status is DeliveryStatus.HELD and workflow.patched(LET_GO):
            await self._standing.note(now.waiting_status, next_attempt_at=now.next_attempt_at)
            return
        self._standing.show(f"next attempt {rfc3339(self._due)}")
        await self._wait((self._due, self._standing.what_is_next), unless=lambda: now.paused)

    async def _while_paused(self) -> None:
        now = self._now
        if now.paused_at is None:
            now.paused_at = workflow.now()
        if now.status is not DeliveryStatus.PAUSED:
            await self._standing.note(DeliveryStatus.PAUSED, next_attempt_at=None)
        self._standing.show("paused; send the signal `resume`, `resend` or `cancel`")
        await self._wait(unless=lambda: not now.paused)
        if not now.paused and not now.cancel:
            await self._resumed(now.paused_at)

    async def _resumed(self, paused_at: datetime) -> None:
        now, put_off = self._now, self._now.put_off
        since = paused_at if put_off is None else min(put_off.since, paused_at)
        now.discount(since, workflow.now())
        now.paused_at = None
        now.put_off = None  # whether it may go by now, the attempt finds out
        self._forget_probe()
        if put_off is not None and put_off.trigger is Trigger.RESEND and not now.resend:
            now.resend = workflow.patched(OWN_TURN)
            now.gently = put_off.gently
        await self._standing.note(now.waiting_status, next_attempt_at=self._due)

    async def _while_put_off(self, put_off: PutOff) -> Trigger | None:
        """Wait for leave to make the attempt that was put off. None: something else came first."""
        now = self._now
        if now.probe and _is_past(now.probe_after):
            return self._take_probe()
        if _is_past(put_off.until) or (now.released and put_off.held):
            now.waited = not put_off.held
            now.discount(put_off.since, workflow.now())
            now.put_off = None
            now.gently = put_off.gently
            self._forget_probe()  # this attempt finds out as well
            return put_off.trigger
        if put_off.held:
            self._standing.show("held until its endpoint is well again; `resend` sends it now")
            moments = [(put_off.until, "held: looks again by itself")]
        else:
            self._standing.show(f"waits for its endpoint's limit until {rfc3339(put_off.until)}")
            moments = [(put_off.until, _LIMIT)]
        if now.probe_after is not None:
            moments.append((now.probe_after, _LIMIT))
        await self._wait(
            *moments,
            unless=lambda: (
                now.paused
                or (now.released and put_off.held)
                or (now.probe and now.probe_after is None)
            ),
        )
        return None

    async def _wait(self, *moments: tuple[datetime, str], unless: Callable[[], bool]) -> None:
        """Wait until the first of these moments, each with its summary, unless something comes
        before: a person, or what `unless` says."""
        now = self._now
        if now.resend and now.resend_after is not None:
            moments = (*moments, (now.resend_after, _LIMIT))
        until, summary = min(moments, default=(None, None))
        self._moved = False
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: (
                    now.cancel
                    or (now.resend and now.resend_after is None)
                    or self._moved
                    or unless()
                ),
                timeout=None if until is None else until - workflow.now(),
                timeout_summary=summary,
            )

    @property
    def _due(self) -> datetime:
        return self._now.due_at or workflow.now()


def _is_past(moment: datetime | None) -> bool:
    """Whether nothing has to be waited for."""
    return moment is None or moment <= workflow.now()
