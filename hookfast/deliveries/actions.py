"""The actions that people and jobs request on deliveries, in one table. Pure.

Routes, jobs, filters, pages, commands, the audit log and the workflow's signals read this table.
What an action does to a delivery is decided by `hookfast.deliveries.life`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from hookfast.deliveries.facts import Action
from hookfast.deliveries.messages import Urgency
from hookfast.deliveries.outcome import DeliveryStatus

UserAction = Literal["pause", "resume", "resend", "cancel"]
"""The actions that a person may request on a delivery, or on many."""
JobAction = Literal[UserAction, "check_limits"]
"""The actions of jobs. `check_limits`: deliveries that wait for their endpoint's limits check them
again, because these were raised."""
AuditName = Literal["delivery.pause", "delivery.resume", "delivery.resend", "delivery.cancel"]
"""The names of the actions in the audit log."""

_UNFINISHED: Final = tuple(status for status in DeliveryStatus if not status.finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """One action. `effect` says in sentences what it does to a delivery ("it"), `job_effect` what
    else applies if a job does it, and `api_note` what only the API's description adds. `done`
    completes the sentence "The delivery …".

    `acts_on` are the statuses in which it has an effect, and `main_in` those in which it is what a
    person most likely wants. `fact` is what the state machine applies; for a job `job_fact`, if
    that differs. `sends`: it makes an attempt, so the endpoint must be active, and a job waits for
    that attempt. `stops`: no request begins after it. `unblocks_lane`: it also acts on a dead
    letter that holds up its lane. `in_portal`: the owners of endpoints may request it too.
    """

    name: UserAction
    audit: AuditName
    title: str
    effect: str
    done: str
    fact: Action
    acts_on: tuple[DeliveryStatus, ...]
    api_note: str = ""
    job_effect: str = ""
    job_fact: Action | None = None
    main_in: tuple[DeliveryStatus, ...] = ()
    sends: bool = False
    stops: bool = False
    unblocks_lane: bool = False
    in_portal: bool = True

    @property
    def label(self) -> str:
        """The name as a button or an option shows it."""
        return self.name.capitalize()

    @property
    def effect_on_each(self) -> str:
        """What a job does to each of its deliveries."""
        return f"For each: {self.effect} {self.job_effect}".rstrip()

    @property
    def ends(self) -> bool:
        """Whether it ends deliveries, so that pages ask first."""
        return self.fact is Action.CANCEL

    def acts_now(self, status: DeliveryStatus, *, blocks_lane: bool) -> bool:
        """Whether it has an effect on a delivery in this status, which may be a dead letter that
        holds up its lane."""
        return status in self.acts_on or (self.unblocks_lane and blocks_lane)


_TABLE: Final = (
    ActionSpec(
        name="pause",
        audit="delivery.pause",
        title="Pause a delivery",
        effect="No attempts are made until it is resumed; the pause does not use up its retry "
        "plan.",
        done="is paused",
        fact=Action.PAUSE,
        acts_on=(DeliveryStatus.PENDING, DeliveryStatus.RETRYING, DeliveryStatus.HELD),
        stops=True,
        in_portal=False,
    ),
    ActionSpec(
        name="resume",
        audit="delivery.resume",
        title="Resume a delivery",
        effect="It continues where it was paused: at once, if an attempt fell due meanwhile.",
        done="is resumed",
        fact=Action.RESUME,
        acts_on=(DeliveryStatus.PAUSED,),
        main_in=(DeliveryStatus.PAUSED,),
    ),
    ActionSpec(
        name="resend",
        audit="delivery.resend",
        title="Send a delivery now",
        effect="One attempt is made now, even if it is paused or finished. If the attempt fails, "
        "the retry plan continues unchanged.",
        job_effect="Where a circuit holds deliveries, it waits with them.",
        api_note="Responds with 409 if the endpoint is disabled or deleted.",
        done="is being resent",
        fact=Action.RESEND,
        job_fact=Action.RESEND_YIELDING,
        acts_on=tuple(DeliveryStatus),
        main_in=(DeliveryStatus.DEAD, DeliveryStatus.GONE),
        sends=True,
    ),
    ActionSpec(
        name="cancel",
        audit="delivery.cancel",
        title="Cancel a delivery",
        effect="It ends without another attempt. It can be resent later.",
        api_note="Where deliveries are ordered, a dead letter that holds up those behind it can "
        "be cancelled too, which lets them go on.",
        done="is being cancelled",
        fact=Action.CANCEL,
        acts_on=_UNFINISHED,
        stops=True,
        unblocks_lane=True,
    ),
)
ACTIONS: Final[Mapping[str, ActionSpec]] = {spec.name: spec for spec in _TABLE}
"""The actions by their names, in the order in which people see them."""


def names(status: DeliveryStatus | None = None) -> str:
    """Return the names of the actions that have an effect in a status, None: of all, as part of a
    sentence: `pause, resume, resend or cancel`."""
    *others, last = [spec.name for spec in _TABLE if status is None or status in spec.acts_on]
    return f"{', '.join(others)} or {last}"


@dataclass(frozen=True, slots=True)
class JobStep:
    """What a job does to each of its deliveries: the fact, and the urgency with which their
    workflows are woken. `sends`: it is done once the attempt was made."""

    fact: Action
    urgency: int
    sends: bool = False


JOB_STEPS: Final[Mapping[str, JobStep]] = {
    **{
        spec.name: JobStep(spec.job_fact or spec.fact, Urgency.JOB, sends=spec.sends)
        for spec in _TABLE
    },
    "check_limits": JobStep(Action.CHECK_LIMITS, Urgency.RETRY),
}
"""What jobs do, by the job's action."""
SENDING: Final = tuple(name for name, step in JOB_STEPS.items() if step.sends)
"""The actions of jobs that make attempts."""
SENDING_FACTS: Final = frozenset(step.fact for step in JOB_STEPS.values() if step.sends)
"""What they do to a delivery. Nothing is sent if its endpoint is disabled or deleted."""
