"""One declaration: an action on deliveries is added by its row in the table of actions, and by what
the state machine does. Everything else reads these.

The test makes the edits of a developer who adds an action, in a copy of the product's source, and
looks for the action where people and programs meet it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("api", "activities", "hookfast", "workflows")
EFFECT = "It is put aside until someone resumes it."
EDITS = {
    "hookfast/deliveries/facts.py": {'PAUSE = "pause"\n': 'PAUSE = "pause"\n    DEFER = "defer"\n'},
    "hookfast/deliveries/life.py": {"case Action.PAUSE:\n": "case Action.PAUSE | Action.DEFER:\n"},
    "hookfast/deliveries/actions.py": {
        'UserAction = Literal["pause", ': 'UserAction = Literal["pause", "defer", ',
        'AuditName = Literal["delivery.pause", ': 'AuditName = Literal["delivery.pause", '
        '"delivery.defer", ',
        "_TABLE: Final = (\n": f"""_TABLE: Final = (
    ActionSpec(
        name="defer",
        audit="delivery.defer",
        title="Put a delivery aside",
        effect="{EFFECT}",
        done="is put aside",
        fact=Action.DEFER,
        acts_on=(DeliveryStatus.RETRYING, DeliveryStatus.HELD),
    ),
""",
    },
}
FIND = f"""
from types import SimpleNamespace
from typing import get_args

from typer.testing import CliRunner

EFFECT = {EFFECT!r}

# the machine
from datetime import UTC, datetime
from hookfast.deliveries.facts import Action
from hookfast.deliveries.life import Life, Phase, apply_fact
assert apply_fact(Life(), Action.DEFER, now=datetime.now(UTC)).phase is Phase.PAUSED

# the API's document and route
from api.app import create_app
from hookfast.settings.settings import Settings
document = create_app(Settings()).openapi()
route = document["paths"]["/v1/deliveries/{{delivery_id}}/defer"]["post"]
assert route["operationId"] == "defer_delivery"
assert (route["summary"], route["description"]) == ("Put a delivery aside", EFFECT)
example = route["responses"]["202"]["content"]["application/json"]["example"]
assert example["action"] == "defer", example
many = document["paths"]["/v1/deliveries/actions"]["post"]
assert many["summary"].startswith("Defer, pause, resume"), many["summary"]
schemas = document["components"]["schemas"]
assert "defer" in schemas["JobView"]["properties"]["action"]["enum"]

# the job's form and filter, and the job
from activities.job import JOB_STEPS
from api.routes.deliveries import DeliveryActionForm
form = DeliveryActionForm.model_validate_json('{{"action": "defer"}}')
assert form.filter.selection_for(form.action).statuses == ("retrying", "held")
assert JOB_STEPS["defer"].fact is Action.DEFER

# the pages of both sites
import api.dashboard.pages.delivery as dashboard, api.portal.pages.activity as portal
for routes, path in (
    (dashboard.routes, "/dashboard/deliveries/{{delivery_id}}/defer"),
    (portal.routes, "/portal/activity/{{delivery_id}}/defer"),
):
    assert path in [each.path for each in routes.routes], path
from api.dashboard.site import DASHBOARD
from api.portal.site import PORTAL
from api.site.delivery_actions import FOR_CUSTOMERS, FOR_OPERATORS, buttons
from api.site.page import templates
from hookfast.deliveries.outcome import DeliveryStatus
delivery = SimpleNamespace(status=DeliveryStatus.HELD, place=None)
for site, offered in ((DASHBOARD, FOR_OPERATORS), (PORTAL, FOR_CUSTOMERS)):
    template = templates(site.templates).from_string(
        '{{% import "parts.html" as parts with context %}}'
        '{{{{ parts.delivery_buttons(buttons, "/x") }}}}'
    )
    page = template.render(
        view=SimpleNamespace(csrf="t", visitor=None), buttons=buttons(delivery, offered)
    )
    assert 'action="/x/defer"' in page and "Defer</button>" in page, page
from hookfast.deliveries.actions import ACTIONS
assert ACTIONS["defer"].effect_on_each == f"For each: {{EFFECT}}"

# the command
from hookfast.cli.remote.deliveries import app
help = " ".join(CliRunner().invoke(app, ["defer", "--help"]).output.split())
assert EFFECT in help, help

# the audit log, and its page
from api.dashboard.pages.audit_log import ACTIONS as AUDITED
from hookfast.audit import AuditAction
assert "delivery.defer" in get_args(AuditAction) and "delivery.defer" in AUDITED

# the signal
from workflows.delivery import DeliveryWorkflow
assert DeliveryWorkflow.defer.__temporal_signal_definition.description == EFFECT
print("found")
"""


def test_an_action_is_added_by_its_row_in_the_table(tmp_path: Path) -> None:
    for name in PRODUCT:
        shutil.copytree(ROOT / name, tmp_path / name)
    for path, edits in EDITS.items():
        source = (tmp_path / path).read_text()
        for before, after in edits.items():
            assert source.count(before) == 1, (path, before)
            source = source.replace(before, after)
        (tmp_path / path).write_text(source)
    found = subprocess.run(
        [sys.executable, "-c", FIND],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.stdout, found.returncode) == ("found\n", 0), found.stderr
