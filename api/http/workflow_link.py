"""Links to workflows in the Temporal UI."""

from __future__ import annotations

from urllib.parse import quote

from pydantic import BaseModel, Field

from api.process.context import Context


class WorkflowView(BaseModel):
    """A Temporal workflow."""

    id: str
    url: str | None = Field(
        description="Its page in the Temporal UI; null if the UI's address is not configured."
    )


def workflow_view(context: Context, workflow_id: str) -> WorkflowView:
    """Return the workflow with this id, with a link if the UI's address is configured."""
    ui = context.settings.temporal_ui_url
    if ui is None:
        return WorkflowView(id=workflow_id, url=None)
    namespace = quote(context.temporal.namespace, safe="")
    path = f"namespaces/{namespace}/workflows/{quote(workflow_id, safe='')}"
    return WorkflowView(id=workflow_id, url=f"{ui.rstrip('/')}/{path}")
