"""Links to workflows in the Temporal UI, as long as Temporal keeps them."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from pydantic import BaseModel, Field

from api.context.context import Context
from api.http.fields import Time


class WorkflowView(BaseModel):
    """A Temporal workflow."""

    id: str = Field(description="Workflow id in Temporal, for its CLI and UI.")
    url: str | None = Field(
        description="Its page in the Temporal UI; null if the UI's address is not configured, or "
        "after `kept_until`."
    )
    kept_until: Time | None = Field(
        description="The end of the retention of Temporal's namespace: afterwards Temporal deletes "
        "the workflow, and only Hookfast's record is left. Null while it may still run, and if the "
        "retention is not known."
    )


def workflow_view(
    context: Context, workflow_id: str, *, closed_at: datetime | None = None
) -> WorkflowView:
    """Return the workflow with this id, which closed at this time, with a link if the UI's address
    is configured and Temporal still has it."""
    kept_until = context.temporal_retention.end_of(closed_at)
    gone = kept_until is not None and kept_until < context.clock()
    url = None if gone else _url(context, workflow_id)
    return WorkflowView(id=workflow_id, url=url, kept_until=kept_until)


def _url(context: Context, workflow_id: str) -> str | None:
    ui = context.settings.temporal_ui_url
    if ui is None:
        return None
    namespace = quote(context.temporal.namespace, safe="")
    path = f"namespaces/{namespace}/workflows/{quote(workflow_id, safe='')}"
    return f"{ui.rstrip('/')}/{path}"
