"""One action on many deliveries: a preview with their number, then the job that does it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fastapi import Response

from api.access.audit import Audit
from api.access.authentication import Writer
from api.dashboard.pages import tenant_names
from api.dashboard.site import DASHBOARD
from api.forms.jobs import JobView, count
from api.routes.deliveries import DeliveryActionForm, act_on_deliveries
from api.site.form import Form, validated
from api.site.formatting import number
from api.site.page import PageView
from api.site.page_route import PageRouter
from hookfast.deliveries.actions import ACTIONS
from hookfast.errors import InvalidInput

routes = PageRouter(DASHBOARD)

_FILTERS: Final = (
    *("status", "endpoint_id", "subscription_id", "event_id", "event_type"),
    *("answer", "tenant_id", "since", "until"),
)


@routes.post("/deliveries/actions")
async def preview(view: PageView, principal: Writer) -> Response:
    """Show how many deliveries the action would apply to. Changes nothing."""
    form = _action_form(view.form)
    counted = await count(
        view.context,
        principal,
        form.filter.selection_for(form.action),
        action=form.action,
    )
    action = ACTIONS[form.action]
    given = _given(view.form)
    await tenant_names.load(view, given.get("tenant_id"))
    return view.preview(
        "bulk.html",
        verb=action.label,
        ends=action.ends,
        nouns=("delivery", "deliveries"),
        counted=counted,
        given=given,
        effect=action.effect_on_each,
        no_effect="This does nothing for any of them now.",
    )


@routes.post("/deliveries/actions/run")
async def run(view: PageView, audit: Audit, principal: Writer) -> Response:
    """Create the job."""
    job = await act_on_deliveries(_action_form(view.form), view.context, audit, principal)
    assert isinstance(job, JobView)  # noqa: S101 - a Response answers dry runs only
    return view.redirect(
        f"/dashboard/jobs/{job.id}", f"The job acts on {number(job.total)} deliveries."
    )


def _action_form(form: Form) -> DeliveryActionForm:
    """Return the API's form with the submitted fields. Raises InvalidInput."""
    action = form.get("action", "")
    if action not in ACTIONS:
        raise InvalidInput.at("/action", "choose an action")
    members = {"action": action} | selection(form, _given(form), noun="deliveries")
    action_form = validated(DeliveryActionForm, members)
    action_form.check(action_form.filter)
    return action_form


def _given(form: Form) -> dict[str, Any]:
    """Return the filter that applies. For ticked deliveries it has no status, because the preview
    counts those to which the action applies."""
    return given_filter(form, _FILTERS if form.get("to") == "all" else _FILTERS[1:])


def given_filter(form: Form, names: Iterable[str]) -> dict[str, Any]:
    """Return the submitted members of a filter, with the ticked ids unless `to` is `all`."""
    members: dict[str, Any] = {name: form.text(name) for name in names}
    if form.get("to") != "all":
        members["ids"] = form.all("ids") or None
    return {name: value for name, value in members.items() if value is not None}


def selection(form: Form, given: dict[str, Any], *, noun: str) -> dict[str, Any]:
    """Return the members of a bulk action that say what it applies to, and how fast it goes.

    With `to` = `all`, an empty filter means everything: the preview has shown the number. Raises
    InvalidInput if nothing is ticked otherwise.
    """
    to_all = form.get("to") == "all"
    if not to_all and "ids" not in given:
        raise InvalidInput.at("/ids", f"select some {noun} first")
    rate = form.number("rate_per_second", pointer="/rate_per_second")
    return {"all": to_all, "filter": given, "rate_per_second": rate}
