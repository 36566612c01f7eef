"""The alerts pass their unit tests and have runbook entries whose commands exist; the Grafana
dashboard is valid."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer import Context
from typer.main import get_command

from hookfast.cli import app
from hookfast.settings.settings import Settings
from hookfast.telemetry.alert_rules import alert_rules

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy/prometheus/rules.yml"  # a link to hookfast/telemetry/alert_rules.yml
TESTS = sorted((ROOT / "deploy/prometheus/tests").glob("*.yml"))
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
BOARD = json.loads((ROOT / "deploy/grafana/hookfast.json").read_text())
PANELS: dict[int, dict[str, Any]] = {panel["id"]: panel for panel in BOARD["panels"]}
RECORDED: dict[str, str] = {
    rule["record"]: rule["expr"]
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "record" in rule
}
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
]
SEVERITIES = {"critical", "warning", "info"}


def test_promtool_accepts_the_rules_and_their_tests_pass() -> None:
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed; the next tests read the rules themselves")
    checked = subprocess.run(
        [promtool, "check", "rules", str(RULES)], check=False, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = subprocess.run(
        [promtool, "test", "rules", *map(str, TESTS)], check=False, capture_output=True, text=True
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


def _metrics(expression: str) -> set[str]:
    """Return the metrics of a query, those of the rules that it uses included."""
    for name, recorded in RECORDED.items():
        expression = expression.replace(name, recorded)
    return set(re.findall(r"\b(?:hookfast|temporal)_\w+", expression))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_links_to_the_panel_that_shows_its_metric(alert: dict[str, Any]) -> None:
    path, _, panel = alert["annotations"]["dashboard_url"].partition("?viewPanel=")
    assert path == f"/d/{BOARD['uid']}/hookfast"
    shown = {m for target in PANELS[int(panel)]["targets"] for m in _metrics(target["expr"])}
    assert _metrics(alert["expr"]) & shown


def test_links_of_alerts_are_absolute_and_prometheus_accepts_any_url(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(
        alert_rules(
            runbook_url='https://docs.example.com/{{ "runbook" }}/?a=1&b=2',
            grafana_url="https://grafana.example.com/team/",
            public_url="https://hooks.example.com/",
        )
    )
    found = [
        rule["annotations"]
        for group in yaml.safe_load(rules.read_text())["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert len(found) == len(ALERTS)
    runbook = "https://docs.example.com/%7B%7B%20%22runbook%22%20%7D%7D/?a=1&b=2"
    for alert, links in zip(ALERTS, found, strict=True):
        path = alert["annotations"]
        assert links["runbook_url"] == f"{runbook}#{alert['alert'].lower()}"
        assert links["dashboard_url"] == (
            f"https://grafana.example.com/team{path['dashboard_url']}"
            "&var-hookfast=https%3A%2F%2Fhooks.example.com"
        )
        assert links["hookfast_url"] == f"https://hooks.example.com{path['hookfast_url']}"
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "rules", str(rules)], check=True, capture_output=True)


def test_links_to_runbook_and_grafana_stay_paths_without_their_settings() -> None:
    text = alert_rules(runbook_url=None, grafana_url=None, public_url="http://127.0.0.1:8080")
    first = next(
        rule["annotations"]
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    )
    assert first["runbook_url"] == "docs/runbook.md#hookfastsuccessratelow"
    assert first["dashboard_url"].startswith("/d/hookfast/hookfast?viewPanel=")
    assert first["hookfast_url"] == "http://127.0.0.1:8080/dashboard/dead-letters"


def test_every_alert_has_a_unit_test_in_which_it_fires() -> None:
    fires = {
        check["alertname"]
        for path in TESTS
        for case in yaml.safe_load(path.read_text())["tests"]
        for check in case["alert_rule_test"]
        if check["exp_alerts"]
    }
    assert fires == {alert["alert"] for alert in ALERTS}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_has_a_severity_and_a_runbook_entry_with_a_remedy(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in SEVERITIES
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["runbook_url"] == f"docs/runbook.md#{alert['alert'].lower()}"
    entry = re.search(rf"^### {alert['alert']}\n(.*?)(?=^##|\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert entry, "the runbook has no entry for it"
    for part in ("**Meaning.**", "**Check.**", "**Remedy.**"):
        assert part in entry[1]


def test_the_runbook_has_no_entry_without_an_alert() -> None:
    entries = set(re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE))
    assert entries == {alert["alert"] for alert in ALERTS}


@pytest.mark.parametrize("line", sorted(set(re.findall(r"^hookfast .*$", RUNBOOK, re.MULTILINE))))
def test_the_commands_of_the_runbook_exist(line: str) -> None:
    command: Any = get_command(app)
    words = shlex.split(line)[1:]
    while hasattr(command, "get_command"):  # a group
        command = command.get_command(Context(command), words.pop(0))
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_the_settings_of_the_runbook_exist() -> None:
    named = set(re.findall(r"HOOKFAST_([A-Z_]+)", RUNBOOK))
    elsewhere = {"URL"}  # the command line's own
    assert {name.lower() for name in named - elsewhere} <= Settings.model_fields.keys()


def test_the_dashboards_panels_do_not_overlap_and_use_its_datasource() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    occupied: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & occupied, f"{panel['title']} overlaps another panel"
        assert place["x"] + place["w"] <= 24
        occupied |= cells
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}"
    datasource, ours = BOARD["templating"]["list"]
    assert (datasource["name"], datasource["query"]) == ("datasource", "prometheus")
    assert (ours["name"], ours["type"]) == ("hookfast", "textbox")


def test_every_change_of_a_circuit_is_an_annotation() -> None:
    own = [each for each in BOARD["annotations"]["list"] if "builtIn" not in each]
    marked = {
        change
        for each in own
        for change in re.findall(r'hookfast_circuit_changes_total\{change="(\w+)"', str(each))
    }
    assert marked == {"opened", "closed", "disabled"}
    for each in own:
        assert each["datasource"]["uid"] == "${datasource}"
        assert each["enable"]
        assert each["titleFormat"]
