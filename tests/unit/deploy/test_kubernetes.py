"""The Kubernetes examples are hardened, complete, and fit Hookfast's settings."""

from __future__ import annotations

import re
from ipaddress import collapse_addresses, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from hookfast.sender import addresses
from hookfast.settings.settings import Settings
from hookfast.supervisor.service import API_GRACE_SECONDS as GRACE_SECONDS
from hookfast.telemetry import instruments
from hookfast.version import VERSION

FOLDER = Path(__file__).parents[3] / "deploy/kubernetes"
LISTED: list[str] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
OBJECTS: dict[tuple[str, str], dict[str, Any]] = {
    (found["kind"], found["metadata"]["name"]): found
    for name in LISTED
    for found in yaml.safe_load_all((FOLDER / name).read_text())
}
CONFIG: dict[str, str] = OBJECTS["ConfigMap", "hookfast"]["data"]
MIGRATE = ("Job", f"hookfast-migrate-{VERSION}")
DEPLOYMENTS = [("Deployment", "hookfast-api"), ("Deployment", "hookfast-worker")]

each_workload = pytest.mark.parametrize("which", [*DEPLOYMENTS, MIGRATE], ids=lambda one: one[1])
each_deployment = pytest.mark.parametrize("which", DEPLOYMENTS, ids=lambda one: one[1])


def _pod(which: tuple[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = OBJECTS[which]["spec"]["template"]["spec"]
    return spec


def _container(which: tuple[str, str]) -> dict[str, Any]:
    (container,) = _pod(which)["containers"]
    assert isinstance(container, dict)
    return container


def test_every_file_is_listed_in_the_kustomization() -> None:
    others = {"kustomization.yaml", "prometheus-adapter.yaml"}
    assert {path.name for path in FOLDER.iterdir()} == {*LISTED, *others}


@each_workload
def test_pods_have_a_restricted_security_context(which: tuple[str, str]) -> None:
    pod, container = _pod(which), _container(which)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}


@each_workload
def test_the_image_is_this_version(which: tuple[str, str]) -> None:
    assert _container(which)["image"] == f"hookfast:{VERSION}"


@each_workload
def test_secrets_are_files_that_only_hookfast_may_read(which: tuple[str, str]) -> None:
    volumes = {volume["name"]: volume for volume in _pod(which)["volumes"]}
    assert volumes["secrets"]["secret"]["defaultMode"] == 0o440
    assert _pod(which)["securityContext"]["fsGroup"] == 10001
    mounts = {mount["name"]: mount["mountPath"] for mount in _container(which)["volumeMounts"]}
    named = [value for name, value in CONFIG.items() if name.endswith("_FILE")]
    assert len(named) >= 5
    assert all(Path(value).parent == Path(mounts["secrets"]) for value in named)
    assert "env" not in _container(which)


def test_every_variable_is_a_setting_and_none_is_a_secret() -> None:
    known = Settings.model_fields
    for variable in CONFIG:
        if variable.startswith("HOOKFAST_"):
            field = variable.removeprefix("HOOKFAST_").removesuffix("_FILE").lower()
            assert field in known
            is_secret = "SecretStr" in str(known[field].annotation)
            assert is_secret is variable.endswith("_FILE")


def test_pods_may_stop_for_longer_than_their_grace_period() -> None:
    grace = Settings.model_fields["shutdown_grace"].default.total_seconds()
    assert _pod(DEPLOYMENTS[1])["terminationGracePeriodSeconds"] > grace + 5
    api = _pod(DEPLOYMENTS[0])
    sleep = _container(DEPLOYMENTS[0])["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert api["terminationGracePeriodSeconds"] > sleep + GRACE_SECONDS


@each_deployment
def test_rollouts_and_evictions_always_leave_a_pod(which: tuple[str, str]) -> None:
    deployment = OBJECTS[which]
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert "replicas" not in deployment["spec"], "it would override the autoscaler"
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    budget = OBJECTS["PodDisruptionBudget", which[1]]["spec"]
    assert budget["selector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    scaler = OBJECTS["HorizontalPodAutoscaler", which[1]]["spec"]
    assert scaler["scaleTargetRef"]["name"] == which[1]
    assert scaler["minReplicas"] > budget["minAvailable"]


@each_deployment
def test_each_deployment_has_three_probes_on_an_open_port(which: tuple[str, str]) -> None:
    container = _container(which)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        how = container[probe].get("httpGet") or container[probe]["tcpSocket"]
        assert how["port"] in ports
    # an API accepts events without Temporal, so it must not be unready then
    assert container["readinessProbe"].get("httpGet", {}).get("path") in (None, "/healthz")


@pytest.mark.parametrize("cidr", ["0.0.0.0/0", "2000::/3"])
def test_deliveries_may_go_where_the_address_guard_lets_them(cidr: str) -> None:
    """The policy lets through global unicast, except for what the guard blocks in it."""
    rules = OBJECTS["NetworkPolicy", "hookfast"]["spec"]["egress"]
    blocks = {one["ipBlock"]["cidr"]: one["ipBlock"] for one in rules[-1]["to"]}
    allowed = ip_network(cidr)
    blocked = [
        network
        for network, _ in (*addresses._IPV4_DENIED, *addresses._IPV6_DENIED)
        if network.version == allowed.version and network.subnet_of(allowed)
    ]
    assert blocks.keys() == {"0.0.0.0/0", str(addresses._GLOBAL_UNICAST)}
    excepted = [ip_network(one) for one in blocks[cidr]["except"]]
    assert list(collapse_addresses(excepted)) == list(collapse_addresses(blocked))
    assert len(blocked) > 5


def test_the_ports_are_those_of_the_settings() -> None:
    ports = [_container(which)["ports"][0]["containerPort"] for which in DEPLOYMENTS]
    fields = Settings.model_fields
    assert ports == [fields["port"].default, fields["worker_metrics_port"].default]


@each_deployment
def test_prometheus_scrapes_each_deployment(which: tuple[str, str]) -> None:
    """The APIs also have the metrics for scaling workers and for most alerts."""
    annotations = OBJECTS[which]["spec"]["template"]["metadata"]["annotations"]
    [port] = _container(which)["ports"]
    assert annotations == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port["containerPort"]),
    }


def test_workers_are_scaled_by_existing_metrics() -> None:
    metrics = OBJECTS["HorizontalPodAutoscaler", "hookfast-worker"]["spec"]["metrics"]
    names = {one[one["type"].lower()]["metric"]["name"] for one in metrics}
    adapter = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"]
    exposed = {rule["name"]["as"] for rule in (*adapter["custom"], *adapter["external"])}
    assert names == exposed
    source = Path(instruments.__file__).read_text()
    measured = {name.replace(".", "_") for name in re.findall(r'"(hookfast\.[\w.]+)"', source)}
    assert names <= measured


def _service_of(url: str) -> tuple[str, int]:
    """The namespace and port of a service's address in the cluster."""
    address = urlsplit(url if "://" in url else f"//{url}")
    assert address.hostname is not None
    assert address.port is not None
    return address.hostname.split(".")[1], address.port


def test_policy_lets_every_service_in_the_cluster_through_and_a_mail_server() -> None:
    egress = OBJECTS["NetworkPolicy", "hookfast"]["spec"]["egress"]
    allowed = {
        (to["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], port["port"])
        for rule in egress
        for to in rule["to"]
        for port in rule.get("ports", [])
    }
    named = {_service_of(value) for value in CONFIG.values() if ".svc:" in value}
    assert len(named) == 2, "Temporal and the collector"
    assert named | {("mail", 587), ("postgresql", 5432)} <= allowed


def test_trusted_proxies_are_fewer_addresses_than_a_clusters_pods() -> None:
    (network,) = CONFIG["HOOKFAST_TRUSTED_PROXIES"].split(",")
    assert ip_network(network).num_addresses <= 256


def test_deliveries_cannot_leave_for_private_networks() -> None:
    egress = OBJECTS["NetworkPolicy", "hookfast"]["spec"]["egress"]
    open_ones = [to["ipBlock"] for rule in egress if "ports" not in rule for to in rule["to"]]
    (v4,) = [block for block in open_ones if ":" not in block["cidr"]]
    for private in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"):
        assert private in v4["except"]
