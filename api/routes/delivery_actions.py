"""One action on many deliveries."""

from __future__ import annotations

from fastapi import Response
from pydantic import ConfigDict, Field

from api.access.audit import Audit
from api.access.authentication import Writer
from api.forms import jobs
from api.forms.delivery_filter import ChoiceOptions, DeliveryChoiceForm
from api.forms.jobs import JOB_ANSWERS, JobView
from api.http.routing import router
from api.process.context import AppContext
from hookfast.deliveries.job import JobKind
from hookfast.storage.deliveries.actions import UserAction

routes = router("Deliveries")


class DeliveryActionForm(ChoiceOptions):
    """What to do, and with which deliveries."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "action": "resend",
                    "filter": {"status": ["dead", "gone"], "event_type": "order.invoice.paid"},
                    "dry_run": True,
                }
            ]
        }
    )

    action: UserAction
    filter: DeliveryChoiceForm = Field(default_factory=DeliveryChoiceForm)


@routes.post(
    "/deliveries/actions",
    status_code=202,
    summary="Pause, resume, resend or cancel many deliveries",
    response_model=JobView,
    responses=JOB_ANSWERS,
)
async def act_on_deliveries(
    form: DeliveryActionForm, context: AppContext, audit: Audit, principal: Writer
) -> JobView | Response:
    """A dry run counts. Otherwise a job acts on the deliveries that are there now, oldest first, at
    its rate. A resend by a job waits where a circuit is open."""
    form.check(form.filter)
    return await jobs.run(
        context,
        principal,
        audit,
        kind=JobKind.ACTION,
        action=form.action,
        chosen=form.filter.chosen_for(form.action),
        options=form,
    )
