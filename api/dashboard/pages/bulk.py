"""One action on many deliveries: a preview with their number, then the job that does it."""

from __future__ import annotations

from typing import Any, Final, get_args

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.site.form import Form, validated
from api.dashboard.site.formatting import number
from api.dashboard.site.page import PageView
from api.dashboard.site.page_route import page_router
from api.forms.jobs import JobView, count
from api.process.context import AppContext
from api.routes.deliveries import DeliveryActionForm, act_on_deliveries
from hookfast.errors import InvalidInput
from hookfast.storage.deliveries.actions import UserAction

routes = page_router()

_FILTERS: Final = (
    *("status", "endpoint_id", "subscription_id", "event_id", "event_type"),
    *("tenant_id", "since", "until"),
)
_EFFECTS: Final[dict[str, str]] = {
    "pause": "They wait until you resume them. Paused time does not use up the retry plan.",
    "resume": "They continue where they were paused.",
    "resend": "Each is sent again with its own message id. Where a circuit is open, they wait.",
    "cancel": "They end without another attempt. You can resend them later.",
}


@routes.post("/deliveries/actions")
async def preview(view: PageView, context: AppContext, principal: Writer) -> Response:
    """Show how many deliveries the action would apply to. Changes nothing."""
    form = _action_form(view.form)
    counted = await count(
        context,
        principal,
        form.filter.selection_for(form.action),
        resend=form.action == "resend",
    )
    matching = sum(counted.values())
    return view.preview(
        "bulk.html",
        verb=form.action.capitalize(),
        noun="delivery" if matching == 1 else "deliveries",
        matching=matching,
        counted=counted,
        given=_members(view.form),
        unfiltered="No filter is set: this applies to every delivery.",
        effect=_EFFECTS[form.action],
        no_effect="This does nothing for any of them now.",
        is_dangerous=form.action == "cancel",
        action=form.action,
        rate=context.settings.job_rate_per_second,
    )


@routes.post("/deliveries/actions/run")
async def run(view: PageView, context: AppContext, audit: Audit, principal: Writer) -> Response:
    """Create the job."""
    job = await act_on_deliveries(_action_form(view.form), context, audit, principal)
    assert isinstance(job, JobView)  # noqa: S101 - a Response answers dry runs only
    return view.redirect(
        f"/dashboard/jobs/{job.id}", f"The job acts on {number(job.total)} deliveries."
    )


def _action_form(form: Form) -> DeliveryActionForm:
    """Return the API's form with the submitted fields.

    With `to` = `all`, an empty filter means every delivery: the preview has shown their number.
    Raises InvalidInput.
    """
    action = form.get("action", "")
    if action not in get_args(UserAction):
        raise InvalidInput.at("/action", "choose an action")
    to_all = form.get("to") == "all"
    members = _members(form)
    if not to_all and "ids" not in members:
        raise InvalidInput.at("/ids", "select some deliveries first")
    action_form = validated(
        DeliveryActionForm,
        {
            "action": action,
            "all": to_all,
            "filter": members,
            "rate_per_second": form.number("rate_per_second", pointer="/rate_per_second"),
        },
    )
    action_form.check(action_form.filter)
    return action_form


def _members(form: Form) -> dict[str, Any]:
    """Return the filter members that apply. To `all`: not the ticked ids. To the ticked ones: not
    the status, because the preview counts the deliveries to which the action applies."""
    members: dict[str, Any] = {name: form.text(name) for name in _FILTERS}
    if form.get("to") != "all":
        members |= {"status": None, "ids": form.all("ids") or None}
    return {name: value for name, value in members.items() if value is not None}
