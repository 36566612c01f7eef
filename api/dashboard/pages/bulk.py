"""One action on many deliveries: first how many it would be, then the job that does it."""

from __future__ import annotations

from typing import Any, Final, get_args

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.site.form import Form, filled
from api.dashboard.site.formatting import number
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.forms.jobs import JobView, count
from api.process.context import AppContext
from api.routes.delivery_actions import DeliveryActionForm, act_on_deliveries
from hookfast.errors import InvalidInput
from hookfast.storage.deliveries.actions import UserAction

routes = page_router()

_TEXTS: Final = (
    *("status", "endpoint_id", "subscription_id", "event_id", "event_type"),
    *("tenant_id", "since", "until"),
)
_WORDS: Final[dict[str, str]] = {
    "pause": "Pause",
    "resume": "Resume",
    "resend": "Resend",
    "cancel": "Cancel",
}


@routes.post("/deliveries/actions")
async def preview(view: PageView, context: AppContext, principal: Writer) -> Response:
    """How many deliveries it would be. Changes nothing."""
    form = _action_form(view.form)
    counted = await count(
        context,
        principal,
        form.filter.chosen_for(form.action),
        resend=form.action == "resend",
    )
    return view.preview(
        "bulk.html",
        action=form.action,
        words=_WORDS[form.action],
        counted=counted,
        matching=sum(counted.values()),
        given=_given(view.form),
        rate=context.settings.job_rate_per_second,
    )


@routes.post("/deliveries/actions/run")
async def run(view: PageView, context: AppContext, audit: Audit, principal: Writer) -> Response:
    """Make the job."""
    job = await act_on_deliveries(_action_form(view.form), context, audit, principal)
    if not isinstance(job, JobView):
        raise InvalidInput("This was a count, not a job.")
    return view.go(f"/dashboard/jobs/{job.id}", f"The job acts on {number(job.total)} deliveries.")


def _action_form(form: Form) -> DeliveryActionForm:
    """What the fields ask for. With `to` = `all` an empty filter means everything: the preview has
    said how many that is. Raises InvalidInput."""
    action = form.get("action", "")
    if action not in get_args(UserAction):
        raise InvalidInput.at("/action", "choose what to do")
    to_all = form.get("to") == "all"
    given = _given(form)
    if not to_all and "ids" not in given:
        raise InvalidInput.at("/ids", "select some deliveries first")
    rate = form.number("rate_per_second", pointer="/rate_per_second")
    members = {"action": action, "all": to_all, "filter": given, "rate_per_second": rate}
    asked = filled(DeliveryActionForm, members)
    asked.check(asked.filter)
    return asked


def _given(form: Form) -> dict[str, Any]:
    """The members of the filter that were sent and count. With `to` = `all` what is ticked does
    not. Otherwise the status does not: the boxes say which, and whether it makes sense is counted.
    """
    given: dict[str, Any] = {name: form.text(name) for name in _TEXTS}
    if form.get("to") != "all":
        given |= {"status": None, "ids": form.all("ids") or None}
    return {name: value for name, value in given.items() if value is not None}
