"""docs/telemetry.md lists all metrics, and the standard variables configure them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hookfast.telemetry.instruments import CATALOGUE
from hookfast.telemetry.metric import TENANT_LABEL, Metric

PAGE = Path(__file__).parents[3] / "docs/telemetry.md"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels if label != TENANT_LABEL)
    processes = ", ".join(metric.exported_by)
    return f"| `{metric.name}` | {metric.unit} | {processes} | {labels} | {metric.description} |"


def test_documentation_lists_every_metric() -> None:
    rows = ["| metric | unit | process | labels | meaning |", "|---|---|---|---|---|"]
    table = "\n".join([*rows, *map(_row, CATALOGUE.values())])
    assert table in PAGE.read_text(), f"put this into it:\n{table}"


def test_names_and_units_follow_opentelemetry() -> None:
    for metric in CATALOGUE.values():
        assert metric.name.startswith(("hookfast.", "http.server."))
        assert metric.name.replace(".", "").replace("_", "").isalpha()
        assert metric.unit in {"s", "1"} or metric.unit == f"{{{metric.unit.strip('{}')}}}"
        assert metric.description.endswith(".")


def test_metrics_have_a_tenant_label_only_by_request() -> None:
    assert 'tenant_id="tnt_7"' in _exposed(by_tenant=True)
    assert "tnt_7" not in _exposed(by_tenant=False)


def test_standard_variable_turns_metrics_off() -> None:
    assert _exposed(by_tenant=False, OTEL_SDK_DISABLED="true").strip() == ""


def test_standard_variables_set_the_name_of_the_service() -> None:
    assert 'service_name="hookfast-worker"' in _exposed(by_tenant=False)
    assert 'service_name="hooks"' in _exposed(by_tenant=False, OTEL_SERVICE_NAME="hooks")
    given = _exposed(by_tenant=False, OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=eu")
    assert 'deployment_environment_name="eu"' in given


def _exposed(*, by_tenant: bool, **environment: str) -> str:
    """Return the metrics of a new process, because a process is set up only once."""
    program = (
        "from hookfast.telemetry import exposition, instruments, providers\n"
        f"telemetry = providers.start('worker', by_tenant={by_tenant})\n"
        "instruments.DELIVERIES.add(outcome='delivered', tenant='tnt_7')\n"
        "print(exposition.text(telemetry.registry).decode())"
    )
    ours = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=ours | environment,
    ).stdout
