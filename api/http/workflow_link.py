"""Where to see a workflow in the Temporal UI."""

from __future__ import annotations

from urllib.parse import quote

from pydantic import BaseModel, Field

from api.process.context import Context


class WorkflowView(BaseModel):
    """The Temporal workflow that does it."""

    id: str
    url: str | None = Field(description="Where to see it in the Temporal UI, where that is known.")


def workflow_view(context: Context, workflow_id: str) -> WorkflowView:
    """The workflow with this id, and its link where the UI's address is known."""
    ui = context.settings.temporal_ui_url
    if ui is None:
        return WorkflowView(id=workflow_id, url=None)
    namespace = quote(context.temporal.namespace, safe="")
    path = f"namespaces/{namespace}/workflows/{quote(workflow_id, safe='')}"
    return WorkflowView(id=workflow_id, url=f"{ui.rstrip('/')}/{path}")
