"""Traces, metrics and logs of a running service: one delivery is one trace from the emit to the
receiver, every metric has its name and labels, and the log tells a delivery from the emit to the
dead letter. All tests share one `hookfast up`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from opentelemetry.trace import SpanKind
from prometheus_client.parser import text_string_to_metric_families

from hookfast.events.operational import SYSTEM_TENANT
from hookfast.logs.kind import Kind
from hookfast.telemetry.instruments import CATALOGUE
from hookfast.telemetry.metric import TENANT_LABEL
from tests.e2e.otlp_collector import Collector, ReceivedSpan, collector
from tests.e2e.service_process import NO_TLS, eventually, free_ports
from tests.e2e.test_up import Up, running_up
from tests.integration.api.inbound import signed
from tests.support import log_lines
from tests.support.serving import serving

ROOT = Path(__file__).parents[2]
OPERATOR_KEY = "hf_" + "t" * 40
METRICS_TOKEN = "a-token-for-metrics"
CALLER_TRACE, CALLER_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
UNSAMPLED = "c" * 32
SECRETS = {
    "a body": "the-body-nobody-sees",
    "a header's value": "the-header-nobody-sees",
    "a path of the receiver": "the-path-nobody-sees",
    "a query of the receiver": "the-query-nobody-sees",
    "a query of the caller": "the-callers-query-nobody-sees",
    "an API key": OPERATOR_KEY,
    "an error's text": "Connection refused",
}
# Metrics that only appear after an error that a test should not cause.
ONLY_WHEN_IT_HAPPENS = {"temporal_workflow_task_execution_failed_total"}
ADDED = {"le", "instance"}  # labels of buckets, and of every target of Prometheus


@dataclass
class Service:
    """A running service, its collector, and the headers that its receiver got."""

    up: Up
    worker_port: int
    collector: Collector
    received: list[dict[str, str]]
    receiver_url: str

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = httpx2.request(
            method,
            self.up.url + path,
            json=body,
            headers={"Authorization": f"Bearer {OPERATOR_KEY}", **headers},
            trust_env=False,
            verify=NO_TLS,
        )
        assert answer.status_code < 300, answer.text
        return answer.json()

    def metrics(self, process: str) -> dict[str, list[dict[str, str]]]:
        """Return the labels of every sample of a process's `/metrics`, by the sample's name."""
        port = self.up.ports["api"] if process == "api" else self.worker_port
        answer = httpx2.get(
            f"http://127.0.0.1:{port}/metrics",
            headers={"Authorization": f"Bearer {METRICS_TOKEN}"},
            trust_env=False,
            verify=NO_TLS,
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, list[dict[str, str]]] = {}
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append(dict(sample.labels))
        return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that has delivered an event in two attempts, failed to deliver another, mailed an
    owner, and accepted and rejected a provider's request."""
    received: list[dict[str, str]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            received.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(500 if len(received) == 1 else 204)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    home = tmp_path_factory.mktemp("telemetry") / "home"
    [worker_port] = free_ports(1)
    with (
        collector() as collected,
        serving(Receiver) as url,
        running_up(
            home,
            OTEL_EXPORTER_OTLP_ENDPOINT=collected.url,
            OTEL_BSP_SCHEDULE_DELAY="100",
            OTEL_METRIC_EXPORT_INTERVAL="500",
            HOOKFAST_OPERATOR_KEY=OPERATOR_KEY,
            HOOKFAST_METRICS_TOKEN=METRICS_TOKEN,
            HOOKFAST_WORKER_METRICS_PORT=str(worker_port),
            HOOKFAST_ALLOWED_PRIVATE_NETWORKS="127.0.0.0/8",
            HOOKFAST_ALLOW_HTTP="true",
            HOOKFAST_ALLOW_UNVERIFIED="true",
            HOOKFAST_MAIL_GATHER="0.1",
        ) as up,
    ):
        service = Service(up, worker_port, collected, received, url)
        _generate_traffic(service)
        yield service


def _generate_traffic(service: Service) -> None:
    tenant = service.call("POST", "/v1/tenants", {"name": "Acme"})["id"]
    common = {
        "tenant_id": tenant,
        "verification": "none",
        "retry_plan": {"delays_seconds": [0.1], "jitter": 0},
    }
    for name in ("paid", "refused"):
        service.call("PUT", f"/v1/event-types/order.invoice.{name}", {})
    service.call(
        "POST",
        "/v1/endpoints",
        common
        | {
            "url": f"{service.receiver_url}/{SECRETS['a path of the receiver']}"
            f"?key={SECRETS['a query of the receiver']}",
            "headers": {"X-Tenant-Header": SECRETS["a header's value"]},
            "events": ["order.invoice.paid"],
        },
    )
    service.call(
        "POST",
        "/v1/endpoints",
        common
        | {
            "url": "http://127.0.0.1:4/",
            "events": ["order.invoice.refused"],
            "owner_emails": ["owner@example.com"],
            "circuit": {"failure_threshold": 2, "min_span_seconds": 0},
        },
    )
    # filters that keep out all events, for the counters of the API and of the worker
    filtered = {"events": ["order.invoice.paid", "hookfast.**"], "filter": {"secret": "another"}}
    for owner in (tenant, SYSTEM_TENANT):
        unused = service.call(
            "POST", "/v1/endpoints", common | {"tenant_id": owner, "url": "http://127.0.0.1:4/"}
        )
        service.call("POST", "/v1/subscriptions", filtered | {"endpoint_id": unused["id"]})
    data = {"secret": SECRETS["a body"]}
    paid = service.call(
        "POST",
        "/v1/events",
        {"type": "order.invoice.paid", "tenant_id": tenant, "data": data},
        traceparent=f"00-{CALLER_TRACE}-{CALLER_SPAN}-01",
    )
    refused = {"type": "order.invoice.refused", "tenant_id": tenant, "data": data}
    service.call("POST", "/v1/events", refused)
    source = service.call(
        "POST", "/v1/sources", {"tenant_id": tenant, "name": "shop", "provider": "github"}
    )
    for secret in (source["secret"], "a wrong one"):
        headers, body = signed({"ref": "main"}, secret=secret)
        where = f"/in/{source['id']}?token={SECRETS['a query of the caller']}"
        httpx2.post(
            service.up.url + where,
            content=body,
            headers=headers | {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
            trust_env=False,
            verify=NO_TLS,
        )

    def delivered() -> bool:
        listed = service.call("GET", f"/v1/events/{paid['id']}/deliveries")["data"]
        return [one["status"] for one in listed] == ["delivered"]

    eventually(delivered)
    service.call(
        "POST",
        "/v1/events",
        {"type": "order.invoice.paid", "tenant_id": tenant, "data": data},
        traceparent=f"00-{UNSAMPLED}-{CALLER_SPAN}-00",
    )
    eventually(lambda: len(service.received) == 3)
    eventually(lambda: "hookfast_mail_total" in service.metrics("worker"))
    eventually(lambda: len(_attempts(service)) == 2)


def _attempts(service: Service) -> list[ReceivedSpan]:
    trace = service.collector.trace(CALLER_TRACE)
    found = [span for span in trace if span.name == "attempt order.invoice.paid"]
    return sorted(found, key=lambda span: int(span.attributes["hookfast.attempt.number"]))


def test_one_delivery_is_one_trace_from_the_emit_to_the_receiver(service: Service) -> None:
    spans = {span.name: span for span in service.collector.trace(CALLER_TRACE)}
    served, emitted = spans["POST /v1/events"], spans["emit order.invoice.paid"]
    started = spans["start order.invoice.paid"]
    assert (served.parent_id, served.service) == (CALLER_SPAN, "hookfast-api")
    assert (emitted.parent_id, emitted.kind) == (served.span_id, _kind(SpanKind.PRODUCER))
    assert (started.parent_id, started.service) == (emitted.span_id, "hookfast-worker")
    assert started.attributes["hookfast.delivery.id"].startswith("dlv_")
    requests = [span for span in service.collector.trace(CALLER_TRACE) if span.name == "POST"]
    for number, attempt in enumerate(_attempts(service), start=1):
        [request] = [span for span in requests if span.parent_id == attempt.span_id]
        assert (attempt.parent_id, attempt.kind) == (emitted.span_id, _kind(SpanKind.CONSUMER))
        assert attempt.attributes["hookfast.event.id"] == emitted.attributes["messaging.message.id"]
        assert request.kind == _kind(SpanKind.CLIENT)
        sent = service.received[number - 1]["traceparent"]
        assert sent == f"00-{CALLER_TRACE}-{request.span_id}-01"


def test_retry_span_has_its_trigger_and_links_to_the_event(service: Service) -> None:
    first, second = _attempts(service)
    [emitted] = [
        span for span in service.collector.trace(CALLER_TRACE) if span.name.startswith("emit ")
    ]
    assert (first.attributes["hookfast.attempt.trigger"], first.links) == ("first", ())
    assert first.attributes["hookfast.attempt.next"] == "retry"
    assert second.attributes["hookfast.attempt.trigger"] == "retry"
    assert second.attributes["hookfast.attempt.next"] == "delivered"
    assert second.links == (emitted.span_id,)
    requests = {
        span.attributes["http.response.status_code"]: span.attributes
        for span in service.collector.trace(CALLER_TRACE)
        if span.name == "POST"
    }
    assert requests[500]["error.type"] == "500"
    assert "http.request.resend_count" not in requests[500]
    assert requests[204]["http.request.resend_count"] == 1
    assert "error.type" not in requests[204]


def test_unsampled_callers_trace_is_passed_on_but_not_recorded(
    service: Service,
) -> None:
    sent = service.received[2]["traceparent"]
    assert sent.startswith(f"00-{UNSAMPLED}-")
    assert sent.endswith("-00")
    assert service.collector.trace(UNSAMPLED) == []


def test_no_span_stays_open_while_a_delivery_waits(service: Service) -> None:
    assert max(span.seconds for span in service.collector.spans) < 30


def test_callers_of_a_source_cannot_choose_the_trace(service: Service) -> None:
    def receptions() -> list[ReceivedSpan]:
        return [one for one in service.collector.spans if one.name == "POST /in/{source_id}"]

    eventually(lambda: len(receptions()) == 2)
    accepted, rejected = receptions()
    assert accepted.attributes["messaging.message.id"].startswith("evt_")
    assert "messaging.message.id" not in rejected.attributes
    assert not service.collector.trace("a" * 32)
    assert {span.attributes["url.query"] for span in receptions()} == {"REDACTED"}


def test_the_log_tells_a_delivery_from_the_emit_to_the_dead_letter(service: Service) -> None:
    """Follow a delivery as an operator does who has nothing but the log."""

    def lines(kind: Kind, **fields: Any) -> list[dict[str, Any]]:
        wanted = {"kind": kind.value, **fields}
        return [line for line in _log(service) if wanted.items() <= line.items()]

    def circuit_is_open() -> bool:
        return bool(lines(Kind.CIRCUIT_OPENED) and lines(Kind.MAIL_SENT))

    eventually(circuit_is_open)
    [accepted] = lines(Kind.EVENT_ACCEPTED, event_type="order.invoice.refused")
    assert accepted["deliveries"] == 1
    [request] = lines(Kind.REQUEST, request_id=accepted["request_id"])
    assert (request["method"], request["route"]) == ("POST", "/v1/events")
    assert request["status_code"] == 202
    first, second = lines(Kind.ATTEMPT_ENDED, event_id=accepted["event_id"])
    ids = {name: first[name] for name in ("delivery_id", "endpoint_id", "tenant_id")}
    assert (first["attempt"], first["trigger"], first["result"]) == (1, "first", "refused")
    assert (first["status"], first["process"]) == ("retrying", "worker")
    assert first["next_attempt_at"] <= second["timestamp"]
    assert (second["attempt"], second["trigger"], second["status"]) == (2, "retry", "dead")
    assert "next_attempt_at" not in second
    [dead] = lines(Kind.DEAD_LETTER, delivery_id=ids["delivery_id"])
    assert ids.items() <= dead.items()
    assert (dead["status"], dead["reason"], dead["attempts"]) == ("dead", "retries_exhausted", 2)
    traces = {line["trace_id"] for line in (accepted, request, first, second, dead)}
    assert len(traces) == 1
    told = [line["kind"] for line in _log(service) if ids.items() <= line.items()]
    assert told == [Kind.ATTEMPT_ENDED, Kind.ATTEMPT_ENDED, Kind.DEAD_LETTER]
    [opened] = lines(Kind.CIRCUIT_OPENED, endpoint_id=ids["endpoint_id"])
    assert opened["failures"] == 2
    [mailed] = lines(Kind.MAIL_SENT, endpoint_id=ids["endpoint_id"])
    assert mailed["mail"] == "opened"


def test_the_log_has_what_was_delivered_received_and_changed(service: Service) -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for line in _log(service):
        by_kind.setdefault(line.get("kind", ""), []).append(line)
    ended = [line["attempts"] for line in by_kind[Kind.DELIVERY_ENDED]]
    assert sorted(ended)[-1] == 2
    outcomes = [(line["outcome"], line.get("code")) for line in by_kind[Kind.INBOUND]]
    assert outcomes == [("accepted", None), ("rejected", "signature_mismatch")]
    [received] = [line for line in by_kind[Kind.EVENT_ACCEPTED] if line["origin"] == "inbox"]
    assert received["event_id"] == by_kind[Kind.INBOUND][0]["event_id"]
    actions = [(line["action"], line["actor"]) for line in by_kind[Kind.CHANGE]]
    assert ("tenant.create", "operator") in actions
    assert ("endpoint.create", "operator") in actions


def test_no_secret_is_in_the_log(service: Service) -> None:
    text = (service.up.home.parent / "up.log").read_text()
    assert len(_log(service)) > 10
    assert [name for name, secret in SECRETS.items() if secret in text] == []
    log_lines.check_file(service.up.home.parent / "up.log")


def _log(service: Service) -> list[dict[str, Any]]:
    return log_lines.lines_of((service.up.home.parent / "up.log").read_text())


def test_no_secret_is_in_spans_or_metrics(service: Service) -> None:
    assert service.collector.raw
    everything = b"".join(service.collector.raw)
    assert [name for name, secret in SECRETS.items() if secret.encode() in everything] == []


def test_every_metric_has_only_the_labels_of_the_catalogue(service: Service) -> None:
    samples = {process: service.metrics(process) for process in ("api", "worker")}
    for metric in CATALOGUE.values():
        for process in samples.keys() & set(metric.exported_by):
            family = _prometheus_name(metric)
            labels = [
                set(sample)
                for suffix in ("", "_total", "_bucket")
                for sample in samples[process].get(family + suffix, [])
            ]
            assert labels, f"{process} has no {family}"
            assert set().union(*labels) <= _labels(metric) - {TENANT_LABEL} | {"le"}, family


def test_metrics_require_the_token_or_the_operators_key(service: Service) -> None:
    api, worker = (
        f"http://127.0.0.1:{port}/metrics"
        for port in (service.up.ports["api"], service.worker_port)
    )
    assert httpx2.get(api, trust_env=False, verify=NO_TLS).status_code == 401
    assert httpx2.get(worker, trust_env=False, verify=NO_TLS).status_code == 401
    operator = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    assert httpx2.get(api, headers=operator, trust_env=False, verify=NO_TLS).status_code == 200
    assert httpx2.get(worker, headers=operator, trust_env=False, verify=NO_TLS).status_code == 401


def test_the_metrics_are_pushed_too(service: Service) -> None:
    api = {name for name, metric in CATALOGUE.items() if "api" in metric.exported_by}
    worker = {name for name, metric in CATALOGUE.items() if "worker" in metric.exported_by}
    eventually(lambda: api <= service.collector.metrics.get("hookfast-api", set()))
    eventually(lambda: worker <= service.collector.metrics.get("hookfast-worker", set()))


def _exposed(service: Service) -> dict[str, set[str]]:
    """Return the labels of every sample of both processes, by name. The relay of an application's
    outbox does not run here; its metrics are those of the catalogue."""
    found = {
        _prometheus_name(metric): _labels(metric)
        for metric in CATALOGUE.values()
        if metric.exported_by == ("outbox-relay",)
    }
    for process in ("api", "worker"):
        for name, samples in service.metrics(process).items():
            found[name] = found.get(name, set()).union(*samples)
    return found


def _rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def _board_expressions() -> list[tuple[str, str]]:
    board = json.loads((ROOT / "deploy/grafana/hookfast.json").read_text())
    panels = [
        (panel["title"], target["expr"])
        for panel in board["panels"]
        for target in panel.get("targets", [])
    ]
    annotations = [
        (each["name"], each["target"]["expr"])
        for each in board["annotations"]["list"]
        if each["name"].startswith(("Circuit", "Endpoint"))
    ]
    assert len(annotations) == 3
    return panels + annotations


def test_metrics_and_labels_of_alerts_and_panels_exist(service: Service) -> None:
    exposed = _exposed(service)
    recorded = {rule["record"] for rule in _rules() if "record" in rule}
    alerts = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in _rules()]
    for name, expression in [*alerts, *_board_expressions()]:
        asked = set(re.findall(r"\b(?:hookfast|temporal|http_server)_\w+", expression))
        ours = set(re.findall(r"\bhookfast:[\w:]+", expression))
        assert asked or ours, name
        assert ours <= recorded, name
        assert asked - ONLY_WHEN_IT_HAPPENS <= exposed.keys(), name
        for metric, selector in re.findall(r"\b(\w+)\{([^}]*)\}", expression):
            labels = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selector))
            assert metric in ONLY_WHEN_IT_HAPPENS or labels <= exposed[metric], name
        if not asked & ONLY_WHEN_IT_HAPPENS:
            grouped = re.findall(r"\bby \(([^)]*)\)", expression)
            by = {label.strip() for group in grouped for label in group.split(",")}
            assert by <= set().union(*(exposed[metric] for metric in asked)) | ADDED, name


def _kind(kind: SpanKind) -> int:
    """Return OTLP's number of the kind: it counts from 1, because 0 is unspecified."""
    return kind.value + 1


def _labels(metric: Any) -> set[str]:
    return {label.replace(".", "_") for label in metric.labels}


def _prometheus_name(metric: Any) -> str:
    return metric.name.replace(".", "_") + ("_seconds" if metric.unit == "s" else "")
